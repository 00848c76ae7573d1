"""The table of objects: writes, reads and the check at the opening, each within one transaction of its caller.

A write is compared with the stored row in the same transaction that makes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import apsw
import msgspec

from fairlead_edge.errors import StoreDamaged, StoreUnusable
from fairlead_edge.io.objects import schema, statuses_table
from fairlead_edge.io.objects import schema as sql
from fairlead_edge.io.objects.schema import VERSION, fact, held, remember
from fairlead_edge.io.sqlite import statements as sqlite
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.link_state import StaleHub
from fairlead_edge.objects import metastore
from fairlead_edge.objects.metastore import Absent, HeldObject, Outcome, Put, Remove, Removed, Stored, Unchanged, verify
from fairlead_edge.objects.watch_history import VersionedChange
from fairlead_wire import message
from fairlead_wire.objects import digest

PAGE_BYTES: Final = 4096
PAGES_MIN: Final = 32
"""The room that an empty schema needs, whatever the limit is."""


class OpenedObjects(NamedTuple):
    """The result of opening the store."""

    version: int
    """The store's version."""
    dropped: int
    """Damaged objects that were removed."""


def prepare(connection: apsw.Connection, node: str, bytes_max: int, wall_milliseconds: int) -> OpenedObjects:
    """Create or check the schema, check the owner, remove damaged rows, and set the size limit."""
    found = int(rows(connection, sqlite.USER_VERSION)[0][0])
    if found not in (0, VERSION):
        raise StoreUnusable(
            f"has version {found}; this program reads version {VERSION}: run the program that wrote it, or remove the "
            "file (the hub will send everything again)"
        )
    if not found:
        schema.create(connection)
    owner = fact(connection, "node")
    if owner not in (None, node):
        raise StoreUnusable(
            f"holds the objects of node {owner!r}, but node is {node!r}: correct node in the settings if it is"
            f" mistyped; otherwise use another data_dir. Keep this one: it may hold undelivered messages of {owner!r}"
        )
    if owner is None:
        remember(connection, "node", node)
    dropped = 0
    for table in sql.TABLES_OF_OBJECTS:
        bad = [number for number, each in schema.every(connection, table) if each is None]
        for number in bad:
            connection.execute(sql.delete_row(table), (number,))
        dropped += len(bad) if table == "objects" else 0
    schema.repair_kinds(connection)
    version = metastore.opening_version(int(fact(connection, "version") or 0), wall_milliseconds)
    remember(connection, "version", version)
    connection.pragma("max_page_count", max(PAGES_MIN, bytes_max // PAGE_BYTES))
    return OpenedObjects(version, dropped)


def _previous(connection: apsw.Connection, key: tuple[str, str, str, str]) -> HeldObject | None:
    """The stored object of this name; a damaged row is removed."""
    row = connection.execute(sql.OBJECT, key).fetchone()
    if row is None:
        return None
    if (found := held(row)) is None:
        connection.execute(sql.delete_row("objects"), (row[0],))
    return statuses_table.with_status(connection, found, key)


def get(connection: apsw.Connection, key: tuple[str, str, str, str]) -> HeldObject | None:
    """One object as clients see it; None if there is none or it is damaged."""
    row = connection.execute(sql.OBJECT, key).fetchone()
    return statuses_table.with_status(connection, held(row) if row is not None else None, key)


def put(connection: apsw.Connection, write: Put, now: float, usable: metastore.Usable) -> Outcome:
    """Store an object.  Raises ``Permanent`` if its content does not match its header."""
    kind = verify(write)
    key = metastore.key_of(write.resource)
    previous = _previous(connection, key)
    if previous is not None and metastore.same_content(previous, write):
        if previous.resource_version != write.resource_version:
            again = msgspec.structs.replace(previous, resource_version=write.resource_version)
            connection.execute(sql.SET_RESOURCE_VERSION, (write.resource_version, schema.checksum_of(again), *key))
        return Unchanged()
    version = next_version(connection)
    current = metastore.hold(write, local_version=version, now=now, previous=previous)
    if previous is not None and previous.uid != write.uid:
        statuses_table.forget(connection, key)
    values = schema.values(current)
    if previous is None:
        connection.execute(sql.INSERT_OBJECT, values)
    else:
        _fall_back(connection, key, metastore.fallback(previous, write, usable))
        connection.execute(sql.REPLACE_OBJECT, (*values[4:], *key))
    schema.put_kind(connection, kind)
    return Stored(change=VersionedChange(version=version, previous=previous, current=current))


def remove(connection: apsw.Connection, write: Remove) -> Outcome:
    """Delete the object if it has the UID of ``write``."""
    key = metastore.key_of(write.resource)
    previous = _previous(connection, key)
    if previous is None or previous.uid != write.uid:
        return Absent()
    version = next_version(connection)
    connection.execute(sql.DELETE_OBJECT, key)
    statuses_table.forget(connection, key)
    _fall_back(connection, key, "drop")
    return Removed(change=VersionedChange(version=version, previous=previous, current=None))


def _fall_back(connection: apsw.Connection, key: tuple[str, str, str, str], what: str) -> None:
    """Update the fallback; called while the previous object is still in its row."""
    if what == "keep":
        return
    connection.execute(sql.DELETE_FALLBACK, key)
    if what == "take":
        connection.execute(sql.KEEP_AS_FALLBACK, key)


def set_aside(connection: apsw.Connection, numbers: Sequence[int]) -> tuple[int, int]:
    """Remove those rows that are still damaged; returns how many, and the store's new version."""
    dropped = 0
    for number in numbers:
        row = connection.execute(sql.row("objects"), (number,)).fetchone()
        if row is not None and held(row) is None:
            connection.execute(sql.delete_row("objects"), (number,))
            dropped += 1
    if dropped:
        remember(connection, "lacking", 1)
    return dropped, next_version(connection) if dropped else current_version(connection)


def forget_cluster(connection: apsw.Connection, group: str, plural: str) -> int:
    """Forget the old cluster: the fence, the rules for statuses and all objects of this type.

    Returns the store's new version.
    """
    remember(connection, "fence", 0)
    forget_stale_hub(connection)
    remember(connection, "lacking", 0)
    remember(connection, statuses_table.RULES_DIGEST, "")
    for table in sql.TABLES_OF_OBJECTS:
        connection.execute(sql.delete_type(table), (group, plural))
    connection.execute(sql.FORGET_KIND, (group, plural))
    return next_version(connection)


def stale_hub(connection: apsw.Connection) -> StaleHub | None:
    """Since when hubs with lower fencing numbers are refused; None: none is, or the record is damaged."""
    since, highest = fact(connection, "stale_hub_since"), fact(connection, "stale_hub_highest")
    return StaleHub(since=since, highest=highest) if isinstance(since, float) and isinstance(highest, int) else None


def persist_stale_hub(connection: apsw.Connection, found: StaleHub) -> None:
    remember(connection, "stale_hub_since", float(found.since))
    remember(connection, "stale_hub_highest", found.highest)


def forget_stale_hub(connection: apsw.Connection) -> None:
    """Called for each session, so it writes only if there is a record."""
    if fact(connection, "stale_hub_since") is not None:
        remember(connection, "stale_hub_since", None)


def current_version(connection: apsw.Connection) -> int:
    """The store's version, which each change raises by one."""
    found = fact(connection, "version")
    if not isinstance(found, int):
        raise StoreDamaged("the store's version is damaged")
    return found


def next_version(connection: apsw.Connection) -> int:
    """Raise the store's version; returns the version of the change being made."""
    version = current_version(connection) + 1
    remember(connection, "version", version)
    return version


def entries(connection: apsw.Connection, bits: int, buckets: frozenset[int]) -> list[message.HeldEntry]:
    """The objects in these buckets, for the comparison with the hub."""
    pairs = connection.execute(sql.UIDS)
    wanted = [rowid for rowid, uid in pairs if digest.bucket_of(uid, bits) in buckets]
    found = []
    for rowid in wanted:
        [row] = rows(connection, sql.row("objects"), (rowid,))
        if (read := held(row)) is not None:
            found.append(message.HeldEntry(read.resource.path, read.uid, read.digest, read.resource_version))
    return sorted(found, key=lambda entry: entry.resource)
