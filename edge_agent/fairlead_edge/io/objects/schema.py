"""The tables of the object store, and their rows with checksums.

objects    one row per (group, plural, namespace, name): identity, versions, canonical JSON
fallbacks  the same, of objects whose version in ``objects`` cannot be used
kinds      every kind ever held, for discovery; made anew from the objects where it is damaged
facts      node, highest fence obeyed, store version, last contact with the hub
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import apsw

from fairlead_edge import checksum
from fairlead_edge.io.objects import statements as sql
from fairlead_edge.io.sqlite import statements as sqlite
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.objects.content import verify
from fairlead_edge.objects.kinds import Kind
from fairlead_edge.objects.metastore import HeldObject, Put
from fairlead_wire.objects.resource import Resource

VERSION: Final = 1
"""The form of this file, in ``PRAGMA user_version``.  A file that says another is refused."""
_ROW: Final = """(
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
CREATE TABLE IF NOT EXISTS objects {_ROW};
CREATE TABLE IF NOT EXISTS fallbacks {_ROW};
CREATE UNIQUE INDEX IF NOT EXISTS objects_key ON objects (api_group, plural, namespace, name);
CREATE INDEX IF NOT EXISTS objects_entries ON objects (uid, digest);
"""


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


def of(read: HeldObject) -> int:
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
    return (*identity, *rest, of(current))


def held(row: Sequence[Any]) -> HeldObject | None:
    """An object as it was stored, of a row as ``statements`` reads it; None when the disk changed it."""
    read = _row(row)
    return read if read is not None and of(read) == row[-1] else None


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
    row = connection.execute(sql.FACT, (name,)).fetchone()
    return row[0] if row and checksum.of_row(name, row[0]) == row[1] else None


def remember(connection: apsw.Connection, name: str, value: Any) -> None:
    """Write a fact over."""
    connection.execute(sql.SET_FACT, (name, value, checksum.of_row(name, value)))


def damaged(connection: apsw.Connection, table: sql.Table, *, after: int, limit: int) -> tuple[int | None, list[int]]:
    """Look at the next rows above ``after``; returns where to go on (None: at the end), and those that are damaged."""
    found = rows(connection, sql.rows_above(table), (after, limit))
    return (found[-1][0] if len(found) == limit else None), [row[0] for row in found if held(row) is None]


def every(connection: apsw.Connection, table: sql.Table) -> Iterator[tuple[int, HeldObject | None]]:
    """Each row by its number, None where it is damaged."""
    for row in connection.execute(sql.all_rows(table)):
        yield int(row[0]), held(row)


def mend_kinds(connection: apsw.Connection) -> None:
    """Kinds as their objects say; one that cannot be read and has no object any more is forgotten."""
    seen: set[tuple[str, str, str]] = set()
    for _, read in every(connection, "objects"):
        if read is None:
            continue
        at = read.resource
        if (at.group, at.version, at.plural) not in seen:
            seen.add((at.group, at.version, at.plural))
            put_kind(connection, kind_of(read))
    connection.execute(sql.DELETE_UNREADABLE_KINDS)
    for row in rows(connection, sql.KIND_TEXTS):
        if not all(_is_name(part) for part in row[1:]) or (row[0] and not _is_name(row[0])):
            connection.execute(sql.DELETE_KIND, row[:3])


def put_kind(connection: apsw.Connection, kind: Kind) -> None:
    """Only where it says something else: the row is there for nearly every object."""
    at = (kind.group, kind.version, kind.plural)
    known = connection.execute(sql.KIND, at).fetchone()
    if known != (kind.kind.encode(), int(kind.namespaced)):
        connection.execute(sql.SET_KIND, (*at, kind.kind, kind.namespaced))


def _is_name(part: bytes) -> bool:
    return bool(part) and part.replace(b".", b"").replace(b"-", b"").isalnum()
