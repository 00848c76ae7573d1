"""The object store on disk: its tables, every SQL statement by name, and the checksums of rows.

objects    one row per (group, plural, namespace, name): identity, versions, canonical JSON
fallbacks  the same columns: the last usable version of objects whose version in ``objects`` is unusable
kinds      every kind ever stored, for discovery; rebuilt from the objects if it is damaged
facts      node, highest fence obeyed, store version, last contact with the hub

Objects are found by (group, plural, namespace, name); damaged ones by their row number, because nothing else about them
is certain.  Text is read as bytes (``CAST(… AS BLOB)``), because damaged text may not be valid UTF-8.
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
"""A table of objects; both have the same columns."""
TABLES_OF_OBJECTS: Final[tuple[Table, ...]] = ("objects", "fallbacks")
"""Both tables of objects."""

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
"""How many objects have one version, in one namespace or (NULL) in all."""
FALLBACKS: Final = f"SELECT {_ROW} FROM fallbacks WHERE api_group = ? AND plural = ? ORDER BY namespace, name"
"""The last usable versions of objects whose current version is unusable."""
COUNT: Final = "SELECT count(*) FROM objects"
"""How many objects are stored."""
DIGESTS: Final = "SELECT uid, digest FROM objects"
"""The input of the summary; answered from an index."""
UIDS: Final = "SELECT rowid, uid FROM objects"
"""Row numbers and UIDs; the UID gives the bucket."""
INSERT_OBJECT: Final = f"INSERT INTO objects ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"
"""Its parameters are those of ``values``."""
REPLACE_OBJECT: Final = (
    "UPDATE objects SET version = ?, uid = ?, digest = ?, resource_version = ?, local_version = ?, "
    f"stored_at = ?, content = ?, checksum = ? {_BY_KEY}"
)
"""Replace the content of an object."""
SET_RESOURCE_VERSION: Final = f"UPDATE objects SET resource_version = ?, checksum = ? {_BY_KEY}"
"""The same content at another version of the cluster."""
SET_LOCAL_VERSION: Final = f"UPDATE objects SET local_version = ?, checksum = ? {_BY_KEY}"
"""The same content with another reported status."""
UID_OF_OBJECT: Final = f"SELECT uid FROM objects {_BY_KEY}"
"""To check whether it is the object for which a status was reported."""
DELETE_OBJECT: Final = f"DELETE FROM objects {_BY_KEY}"
"""The object was deleted in the cluster, or is no longer for this node."""
DELETE_FALLBACK: Final = f"DELETE FROM fallbacks {_BY_KEY}"
"""The current version is usable again, or the object was deleted."""
KEEP_AS_FALLBACK: Final = f"INSERT INTO fallbacks ({_COLUMNS}) SELECT {_COLUMNS} FROM objects {_BY_KEY}"
"""Before the object is replaced by an unusable version."""

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
    """Delete a damaged row."""
    return f"DELETE FROM {table} WHERE rowid = ?"


def delete_type(table: Table) -> str:
    """Delete all objects of a type."""
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
"""How many of them there are, and their bytes, except one."""

# ---- kinds ---------------------------------------------------------------------------------------------------------

KINDS: Final = "SELECT api_group, version, plural, kind, namespaced FROM kinds"
"""Every kind ever stored."""
KIND: Final = "SELECT CAST(kind AS BLOB), namespaced FROM kinds WHERE api_group = ? AND version = ? AND plural = ?"
"""The kind of one type."""
SET_KIND: Final = "INSERT OR REPLACE INTO kinds VALUES (?,?,?,?,?)"
"""Group, version, plural, kind, namespaced."""
FORGET_KIND: Final = "DELETE FROM kinds WHERE api_group = ? AND plural = ?"
"""Forget a kind."""
DELETE_UNREADABLE_KINDS: Final = (
    "DELETE FROM kinds WHERE typeof(api_group) != 'text' OR typeof(version) != 'text' OR typeof(plural) != 'text'"
    " OR typeof(kind) != 'text' OR namespaced NOT IN (0, 1)"
)
"""Delete kinds with a column of the wrong type."""
KIND_TEXTS: Final = (
    "SELECT CAST(api_group AS BLOB), CAST(version AS BLOB), CAST(plural AS BLOB), CAST(kind AS BLOB) FROM kinds"
)
"""To find kinds whose columns are not valid names."""
DELETE_KIND: Final = (
    "DELETE FROM kinds WHERE CAST(api_group AS BLOB) = ? AND CAST(version AS BLOB) = ? AND CAST(plural AS BLOB) = ?"
)
"""Delete a kind by its raw bytes."""

VERSION: Final = 1
"""The format of this file, in ``PRAGMA user_version``.  Files of another version are refused."""
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
"""Creates the tables of an empty file."""


def model(version: int) -> apsw.Connection | None:
    """An empty store of this version, in memory; None for an unknown version."""
    if version not in (0, VERSION):
        return None
    connection = apsw.Connection(":memory:")
    if version:
        create(connection)
    return connection


def create(connection: apsw.Connection) -> None:
    """Create the tables in an empty file."""
    connection.execute(TABLES)
    rows(connection, sqlite.set_user_version(VERSION))


def kind_of(read: HeldObject) -> Kind:
    """The kind of a stored object.  Raises ``Permanent`` if its content does not match its columns."""
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
    """The parameters of ``INSERT_OBJECT``."""
    at = current.resource
    identity = (at.group, at.plural, at.namespace, at.name, at.version, current.uid, current.digest)
    rest = (current.resource_version, current.local_version, float(current.stored_at), current.content)
    return (*identity, *rest, checksum_of(current))


def held(row: Sequence[Any]) -> HeldObject | None:
    """The object of a row read by a statement above; None if the row is damaged."""
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
    """A fact; None if there is none, or it is damaged."""
    row = connection.execute(FACT, (name,)).fetchone()
    return row[0] if row and checksum.of_row(name, row[0]) == row[1] else None


def remember(connection: apsw.Connection, name: str, value: Any) -> None:
    """Write a fact, replacing the old value."""
    connection.execute(SET_FACT, (name, value, checksum.of_row(name, value)))


def damaged(connection: apsw.Connection, table: Table, *, after: int, limit: int) -> tuple[int | None, list[int]]:
    """Verify the next rows above ``after``; returns where to continue (None: done), and the numbers of damaged rows."""
    found = rows(connection, rows_above(table), (after, limit))
    return (found[-1][0] if len(found) == limit else None), [row[0] for row in found if held(row) is None]


def every(connection: apsw.Connection, table: Table) -> Iterator[tuple[int, HeldObject | None]]:
    """All rows by number; None for a damaged one."""
    for row in connection.execute(all_rows(table)):
        yield int(row[0]), held(row)


def repair_kinds(connection: apsw.Connection) -> None:
    """Rebuild kinds from their objects; unreadable ones without an object are forgotten."""
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
    """Store a kind; writes only if it differs, because nearly every object has a known kind."""
    at = (kind.group, kind.version, kind.plural)
    known = connection.execute(KIND, at).fetchone()
    if known != (kind.kind.encode(), int(kind.namespaced)):
        connection.execute(SET_KIND, (*at, kind.kind, kind.namespaced))


def _is_name(part: bytes) -> bool:
    return bool(part) and part.replace(b".", b"").replace(b"-", b"").isalnum()
