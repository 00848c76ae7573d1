"""The object store on disk: its tables, every SQL statement by name, and rows with checksums.

objects    one row per (group, plural, namespace, name): identity, versions, canonical JSON
fallbacks  the same, of objects whose version in ``objects`` cannot be used
kinds      every kind ever held, for discovery; rebuilt from the objects where it is damaged
facts      node, highest fence obeyed, store version, last contact with the hub

An object is found by (group, plural, namespace, name); objects that are damaged are found by their row's number, for
nothing else of them is certain.  Text is read as bytes (``CAST(… AS BLOB)``): damaged, it may be no text any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import apsw

from fairlead_edge import checksum
from fairlead_edge.io.sqlite import statements as sqlite
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.objects.kinds import Kind
from fairlead_edge.objects.metastore import HeldObject, Put, verify
from fairlead_wire.objects.resource import Resource

Table = Literal["objects", "fallbacks"]
"""A table of objects; they have the same columns."""
TABLES_OF_OBJECTS: Final[tuple[Table, ...]] = ("objects", "fallbacks")
"""Both."""

_TEXTS: Final = ("api_group", "plural", "namespace", "name", "version", "uid", "digest", "resource_version")
_COLUMNS: Final = f"{', '.join(_TEXTS)}, local_version, stored_at, content, checksum"
_ROW: Final = (
    f"rowid, {', '.join(f'CAST({name} AS BLOB)' for name in _TEXTS)}, local_version, stored_at, content, checksum"
)
"""The columns that ``held`` takes."""
_BY_KEY: Final = "WHERE api_group = ? AND plural = ? AND namespace = ? AND name = ?"

# ---- objects -------------------------------------------------------------------------------------------------------

OBJECT: Final = f"SELECT {_ROW} FROM objects {_BY_KEY}"
"""One object."""
_OF_TYPE: Final = "FROM objects WHERE api_group = ? AND plural = ? AND (namespace, name) > (?, ?)"
OBJECTS: Final = f"SELECT {_ROW} {_OF_TYPE} ORDER BY namespace, name"
"""Objects of a type above a (namespace, name)."""
OBJECTS_OF_NAMESPACE: Final = f"SELECT {_ROW} {_OF_TYPE} AND namespace = ? ORDER BY namespace, name"
"""Objects of one namespace."""
COUNT_OF_TYPE: Final = f"SELECT count(*) {_OF_TYPE} AND version = ? AND ifnull(namespace = ?, 1)"
"""How many there are of one version; the namespace NULL: of all."""
FALLBACKS: Final = f"SELECT {_ROW} FROM fallbacks WHERE api_group = ? AND plural = ? ORDER BY namespace, name"
"""The newest usable versions of objects whose held version is not."""
COUNT: Final = "SELECT count(*) FROM objects"
"""How many are held."""
DIGESTS: Final = "SELECT uid, digest FROM objects"
"""Input of the sums; an index has it."""
UIDS: Final = "SELECT rowid, uid FROM objects"
"""Row numbers and UIDs; the UID gives the bucket."""
INSERT_OBJECT: Final = f"INSERT INTO objects ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"
"""Values as ``schema.values`` gives them."""
REPLACE_OBJECT: Final = (
    "UPDATE objects SET version = ?, uid = ?, digest = ?, resource_version = ?, local_version = ?, "
    f"stored_at = ?, content = ?, checksum = ? {_BY_KEY}"
)
"""Another content under the same name."""
SET_RESOURCE_VERSION: Final = f"UPDATE objects SET resource_version = ?, checksum = ? {_BY_KEY}"
"""The same content at another version of the cluster."""
SET_LOCAL_VERSION: Final = f"UPDATE objects SET local_version = ?, checksum = ? {_BY_KEY}"
"""The same content, with another status reported of it."""
UID_OF_OBJECT: Final = f"SELECT uid FROM objects {_BY_KEY}"
"""Is it the one that a status was reported of?"""
DELETE_OBJECT: Final = f"DELETE FROM objects {_BY_KEY}"
"""The object was deleted in the cluster, or is no longer for this node."""
DELETE_FALLBACK: Final = f"DELETE FROM fallbacks {_BY_KEY}"
"""The held version is usable again, or gone."""
KEEP_AS_FALLBACK: Final = f"INSERT INTO fallbacks ({_COLUMNS}) SELECT {_COLUMNS} FROM objects {_BY_KEY}"
"""Before the object is replaced by a version that is not usable."""

# ---- rows by number, for scrubs and salvage ------------------------------------------------------------------------


def row(table: Table) -> str:
    """One row."""
    return f"SELECT {_ROW} FROM {table} WHERE rowid = ?"


def rows_above(table: Table) -> str:
    """The next rows above a number."""
    return f"SELECT {_ROW} FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT ?"


def all_rows(table: Table) -> str:
    """Every row."""
    return f"SELECT {_ROW} FROM {table}"


def delete_row(table: Table) -> str:
    """A row the disk changed."""
    return f"DELETE FROM {table} WHERE rowid = ?"


def delete_type(table: Table) -> str:
    """All objects of a type."""
    return f"DELETE FROM {table} WHERE api_group = ? AND plural = ?"


# ---- facts ---------------------------------------------------------------------------------------------------------

FACT: Final = "SELECT value, checksum FROM facts WHERE name = ?"
"""One fact: node, fence, stale_hub_since, stale_hub_highest, version, contact_at, lacking."""
SET_FACT: Final = (
    "INSERT INTO facts(name, value, checksum) VALUES (?, ?, ?)"
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value, checksum = excluded.checksum"
)
"""Write a fact, replacing the old value."""

DELETE_FACT: Final = "DELETE FROM facts WHERE name = ?"
"""A status whose object is gone."""
FACTS_WITHIN: Final = "SELECT name, value, checksum FROM facts WHERE name >= ? AND name < ? ORDER BY name"
"""Facts whose names have a common prefix."""
FACTS_SIZE: Final = "SELECT count(*), sum(length(value)) FROM facts WHERE name >= ? AND name < ? AND name != ?"
"""How many of them, and their bytes, without one."""

# ---- kinds ---------------------------------------------------------------------------------------------------------

KINDS: Final = "SELECT api_group, version, plural, kind, namespaced FROM kinds"
"""Every kind ever held."""
KIND: Final = "SELECT CAST(kind AS BLOB), namespaced FROM kinds WHERE api_group = ? AND version = ? AND plural = ?"
"""The kind of one type."""
SET_KIND: Final = "INSERT OR REPLACE INTO kinds VALUES (?,?,?,?,?)"
"""Group, version, plural, kind, namespaced."""
FORGET_KIND: Final = "DELETE FROM kinds WHERE api_group = ? AND plural = ?"
"""Forget a kind, as if it had never been held."""
DELETE_UNREADABLE_KINDS: Final = (
    "DELETE FROM kinds WHERE typeof(api_group) != 'text' OR typeof(version) != 'text' OR typeof(plural) != 'text'"
    " OR typeof(kind) != 'text' OR namespaced NOT IN (0, 1)"
)
"""A column of another type than was written."""
KIND_TEXTS: Final = (
    "SELECT CAST(api_group AS BLOB), CAST(version AS BLOB), CAST(plural AS BLOB), CAST(kind AS BLOB) FROM kinds"
)
"""To find those that are no names."""
DELETE_KIND: Final = (
    "DELETE FROM kinds WHERE CAST(api_group AS BLOB) = ? AND CAST(version AS BLOB) = ? AND CAST(plural AS BLOB) = ?"
)
"""A kind that is no name."""

VERSION: Final = 1
"""The form of this file, in ``PRAGMA user_version``.  A file that says another is refused."""
_OBJECT_COLUMNS: Final = """(
  api_group TEXT NOT NULL, plural TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  version TEXT NOT NULL, uid TEXT NOT NULL, digest TEXT NOT NULL, resource_version TEXT NOT NULL,
  local_version INTEGER NOT NULL, stored_at REAL NOT NULL, content BLOB NOT NULL, checksum INTEGER
)"""
TABLES: Final = f"""
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value, checksum INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS kinds (
  api_group TEXT, version TEXT, plural TEXT, kind TEXT NOT NULL, namespaced INTEGER NOT NULL,
  PRIMARY KEY (api_group, version, plural)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS objects {_OBJECT_COLUMNS};
CREATE TABLE IF NOT EXISTS fallbacks {_OBJECT_COLUMNS};
CREATE UNIQUE INDEX IF NOT EXISTS objects_key ON objects (api_group, plural, namespace, name);
CREATE INDEX IF NOT EXISTS objects_entries ON objects (uid, digest);
"""
"""Made in an empty file."""


def model(version: int) -> apsw.Connection | None:
    """An empty store of this version, in memory; None for one that this program does not know."""
    if version not in (0, VERSION):
        return None
    connection = apsw.Connection(":memory:")
    if version:
        create(connection)
    return connection


def create(connection: apsw.Connection) -> None:
    """Make the tables in an empty file."""
    connection.execute(TABLES)
    rows(connection, sqlite.set_user_version(VERSION))


def kind_of(read: HeldObject) -> Kind:
    """Raises ``Permanent`` when the content is not what its columns say."""
    return verify(
        Put(
            resource=read.resource,
            uid=read.uid,
            digest=read.digest,
            resource_version=read.resource_version,
            content=read.content,
        )
    )


def checksum_of(read: HeldObject) -> int:
    """The checksum of an object's row."""
    at = read.resource
    return checksum.of_row(
        at.group,
        at.plural,
        at.namespace,
        at.name,
        at.version,
        read.uid,
        read.digest,
        read.resource_version,
        read.local_version,
        float(read.stored_at),
        content=read.content,
    )


def values(current: HeldObject) -> tuple[Any, ...]:
    """For ``statements.INSERT_OBJECT``."""
    at = current.resource
    identity = (at.group, at.plural, at.namespace, at.name, at.version, current.uid, current.digest)
    rest = (current.resource_version, current.local_version, float(current.stored_at), current.content)
    return (*identity, *rest, checksum_of(current))


def held(row: Sequence[Any]) -> HeldObject | None:
    """An object as it was stored, of a row as ``statements`` reads it; None when the disk changed it."""
    read = _row(row)
    return read if read is not None and checksum_of(read) == row[-1] else None


def _row(row: Sequence[Any]) -> HeldObject | None:
    _, *texts, local, stored_at, content, _ = row
    if not isinstance(content, bytes) or not isinstance(local, int) or not isinstance(stored_at, float):
        return None
    try:
        group, plural, namespace, name, version, uid, digest, cluster = (text.decode() for text in texts)
    except (AttributeError, UnicodeDecodeError):
        return None
    return HeldObject(
        resource=Resource(group=group, version=version, plural=plural, namespace=namespace, name=name),
        uid=uid,
        digest=digest,
        resource_version=cluster,
        content=content,
        local_version=local,
        stored_at=stored_at,
    )


def fact(connection: apsw.Connection, name: str) -> Any:
    """A fact as it was remembered; None when there is none, or the disk changed it."""
    row = connection.execute(FACT, (name,)).fetchone()
    return row[0] if row and checksum.of_row(name, row[0]) == row[1] else None


def remember(connection: apsw.Connection, name: str, value: Any) -> None:
    """Write a fact, replacing the old value."""
    connection.execute(SET_FACT, (name, value, checksum.of_row(name, value)))


def damaged(connection: apsw.Connection, table: Table, *, after: int, limit: int) -> tuple[int | None, list[int]]:
    """Verify the next rows above ``after``; returns where to continue (None: at the end), and the damaged rows."""
    found = rows(connection, rows_above(table), (after, limit))
    return (found[-1][0] if len(found) == limit else None), [row[0] for row in found if held(row) is None]


def every(connection: apsw.Connection, table: Table) -> Iterator[tuple[int, HeldObject | None]]:
    """Each row by its number, None where it is damaged."""
    for row in connection.execute(all_rows(table)):
        yield int(row[0]), held(row)


def repair_kinds(connection: apsw.Connection) -> None:
    """Rebuild kinds from their objects; one that cannot be read and has no object any more is forgotten."""
    seen: set[tuple[str, str, str]] = set()
    for _, read in every(connection, "objects"):
        if read is None:
            continue
        at = read.resource
        if (at.group, at.version, at.plural) not in seen:
            seen.add((at.group, at.version, at.plural))
            put_kind(connection, kind_of(read))
    connection.execute(DELETE_UNREADABLE_KINDS)
    for row in rows(connection, KIND_TEXTS):
        if not all(_is_name(part) for part in row[1:]) or (row[0] and not _is_name(row[0])):
            connection.execute(DELETE_KIND, row[:3])


def put_kind(connection: apsw.Connection, kind: Kind) -> None:
    """Writes only when it differs: the row is there already for nearly every object."""
    at = (kind.group, kind.version, kind.plural)
    known = connection.execute(KIND, at).fetchone()
    if known != (kind.kind.encode(), int(kind.namespaced)):
        connection.execute(SET_KIND, (*at, kind.kind, kind.namespaced))


def _is_name(part: bytes) -> bool:
    return bool(part) and part.replace(b".", b"").replace(b"-", b"").isalnum()
