"""Reported statuses, stored as facts of the object store; each call works within a transaction of its caller.

status/<group>/<plural>/<namespace>/<name>   one ``EdgeReportedStatus``, as JSON
status-rules, status-rules-digest            the rules that the hub sent
status-sequence                              the highest sequence number assigned
"""

from __future__ import annotations

from typing import Final

import apsw
import msgspec

from fairlead_edge import checksum
from fairlead_edge.io.objects import schema
from fairlead_edge.io.objects import schema as sql
from fairlead_edge.io.objects.schema import fact, remember
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.objects.metastore import HeldObject
from fairlead_edge.objects.statuses import status_store
from fairlead_edge.objects.statuses.reported import EdgeReportedStatus
from fairlead_edge.objects.statuses.status_store import Key, StatusSummary

RULES: Final = "status-rules"
RULES_DIGEST: Final = "status-rules-digest"
SEQUENCE: Final = "status-sequence"
_PREFIX: Final = "status/"
_decoder = msgspec.json.Decoder(EdgeReportedStatus)


def name_of(key: Key) -> str:
    """The fact's name."""
    return _PREFIX + "/".join(key)


def kept(connection: apsw.Connection, key: Key) -> EdgeReportedStatus | None:
    """The reported status of an object; None if there is none or it is damaged, because programs report it again."""
    return _decoded(fact(connection, name_of(key)))


def with_status(connection: apsw.Connection, held: HeldObject | None, key: Key) -> HeldObject | None:
    """The object with its reported status."""
    return held if held is None else status_store.with_status(held, kept(connection, key))


def lines(connection: apsw.Connection) -> list[StatusSummary]:
    """All reported statuses, by their sequence."""
    found = [status_store.line(key, each) for key, each in _within(connection, _PREFIX)]
    return sorted(found, key=lambda line: line.sequence)


def room_taken(connection: apsw.Connection, key: Key) -> tuple[int, int]:
    """The number of other statuses, and their bytes."""
    [(count, size)] = rows(connection, sql.FACTS_SIZE, (_PREFIX, _after(_PREFIX), name_of(key)))
    return int(count), int(size or 0)


def encoded(reported: EdgeReportedStatus) -> bytes:
    return msgspec.json.encode(reported)


def keep(connection: apsw.Connection, key: Key, reported: EdgeReportedStatus) -> None:
    remember(connection, name_of(key), encoded(reported))


def forget(connection: apsw.Connection, key: Key) -> None:
    """Forget a status, because its object was deleted or replaced by another of the same name."""
    connection.execute(sql.DELETE_FACT, (name_of(key),))


def forget_orphans(connection: apsw.Connection) -> None:
    """Forget statuses whose object is gone, or was recreated while damaged rows were being replaced."""
    for key, each in _within(connection, _PREFIX):
        found = rows(connection, sql.UID_OF_OBJECT, key)
        if not found or found[0][0] != each.uid:
            forget(connection, key)


def next_sequence(connection: apsw.Connection) -> int:
    found = fact(connection, SEQUENCE)
    return (found if isinstance(found, int) else 0) + 1


def set_version(connection: apsw.Connection, current: HeldObject, key: Key) -> None:
    """Set the local version of an object's row."""
    connection.execute(sql.SET_LOCAL_VERSION, (current.local_version, schema.checksum_of(current), *key))


def _within(connection: apsw.Connection, prefix: str) -> list[tuple[Key, EdgeReportedStatus]]:
    found = []
    for name, value, check in rows(connection, sql.FACTS_WITHIN, (prefix, _after(prefix))):
        if checksum.of_row(name, value) != check or (reported := _decoded(value)) is None:
            continue
        group, plural, namespace, own = name.removeprefix(_PREFIX).split("/", 3)
        found.append(((group, plural, namespace, own), reported))
    return found


def _after(prefix: str) -> str:
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def _decoded(value: object) -> EdgeReportedStatus | None:
    if not isinstance(value, bytes):
        return None
    try:
        return _decoder.decode(value)
    except msgspec.DecodeError:
        return None
