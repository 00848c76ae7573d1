"""What the outbox reads from its tables, one function a question; each runs inside one snapshot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import apsw

from fairlead_edge.checksum import of_row
from fairlead_edge.io.outbox import segment as segment_io
from fairlead_edge.outbox import outbox
from fairlead_edge.outbox.age import Stamp
from fairlead_edge.outbox.checksum import of_reference, of_run
from fairlead_edge.outbox.gaps import Damage
from fairlead_edge.outbox.in_flight import InFlight
from fairlead_edge.outbox.queue_id import QueueId

SEGMENTS_KEPT: Final = 4
"""Unpacked segments one reader keeps: references of one queue mostly walk through one segment after the other."""


WITH_RUNS: Final = "references_ r LEFT JOIN runs u ON u.segment = r.segment AND u.queue = r.queue"
"""References in their order, each with what its run says, also those whose run is lost."""
FOR_CHECKING: Final = (
    "r.offset, r.segment, r.start, r.size, r.checksum,"
    " u.first, u.last, u.epoch, u.enqueued, u.expires, CAST(u.topic AS BLOB), u.checksum"
)
"""What ``Bodies.checked`` takes, of ``WITH_RUNS``.  Text as bytes: damaged, it may be no text any more."""


class Unreadable(Exception):
    """A body is not there any more as it was stored; the text says what is wrong."""


class Found(NamedTuple):
    """What a fetch came upon: messages as they were accepted, and those that are not."""

    items: list[outbox.Item]
    damaged: list[Damage]


def rows(connection: apsw.Connection, statement: str, bindings: Sequence[Any] = ()) -> list[Any]:
    """All rows of one statement; columns have the types the schema gives them."""
    return connection.execute(statement, tuple(bindings)).fetchall()


def queues(connection: apsw.Connection) -> list[QueueId]:
    found = rows(connection, "SELECT endpoint, priority FROM queues ORDER BY endpoint, priority")
    return [QueueId(endpoint, priority) for endpoint, priority in found]


def checkpoint(connection: apsw.Connection, queue: QueueId) -> int | None:
    found = rows(
        connection,
        "SELECT checkpoint FROM queues WHERE endpoint = ? AND priority = ?",
        (queue.endpoint, queue.priority),
    )
    return found[0][0] if found else None


def fetch(
    connection: apsw.Connection, queue: QueueId, *, after: int, now: float, messages_max: int, bytes_max: int
) -> Found:
    """See ``outbox.Outbox.fetch``; a run of expired references is passed over without reading their bodies."""
    found = Found([], [])
    known = rows(
        connection,
        "SELECT id, checkpoint FROM queues WHERE endpoint = ? AND priority = ?",
        (queue.endpoint, queue.priority),
    )
    if not known:
        return found
    number, checkpoint = known[0]
    read = Bodies(connection)
    room = bytes_max
    row: Any
    for row in connection.execute(  # lazily: rows beyond bytes_max are never read
        f"SELECT {FOR_CHECKING} FROM {WITH_RUNS}"
        " WHERE r.queue = ? AND r.offset > ? AND (u.expires IS NULL OR u.expires > ?) ORDER BY r.offset LIMIT ?",
        (number, max(after, checkpoint), now, messages_max),
    ):
        checked = read.checked(queue, row)
        if isinstance(checked, Damage):
            found.damaged.append(checked)
            continue
        found.items.append(checked)
        room -= len(checked.content)
        if room <= 0:
            break
    return found


class Bodies:
    """Reads bodies out of their segments; unpacks each segment once in its life, and keeps the latest few."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._unpacked: dict[int, bytes | Unreadable] = {}

    def checked(self, queue: QueueId, row: Sequence[Any]) -> outbox.Item | Damage:
        """The message of one row of ``FOR_CHECKING``, if it and its envelope are what was stored."""
        offset, segment, start, size, expected, first, last, epoch, enqueued, expires, named, run = row
        topic = text(named)
        if run is None or run != sealed(queue, first, last, epoch, enqueued, expires, topic):
            return Damage(offset, "", "its envelope on disk is damaged")
        try:
            body = self.body(segment, start, size)
        except Unreadable as error:
            return Damage(offset, topic, str(error))
        if of_reference(run, offset, body) != expected:
            return Damage(offset, topic, "its body on disk is damaged")
        return outbox.Item(offset, epoch, topic, enqueued, expires, body)

    def body(self, segment: int, start: int, size: int) -> bytes:
        """Raises ``Unreadable``; that what is read is what was stored, only a checksum tells."""
        content = self._unpacked.get(segment)
        if content is None:
            content = self._unpack(segment)
            while len(self._unpacked) >= SEGMENTS_KEPT:
                del self._unpacked[next(iter(self._unpacked))]
            self._unpacked[segment] = content
        if isinstance(content, Unreadable):
            raise content
        if not isinstance(start, int) or not isinstance(size, int):
            raise Unreadable("its place on disk is damaged")
        return content[start : start + size]

    def _unpack(self, segment: int) -> bytes | Unreadable:
        stored = rows(
            self._connection, "SELECT CAST(encoding AS BLOB), content, size FROM segments WHERE id = ?", (segment,)
        )
        if not stored:
            return Unreadable("its body is missing on disk")
        encoding, packed, size = stored[0]
        try:
            return segment_io.unpack(text(encoding), packed, size)
        except ValueError as error:
            return Unreadable(f"its body on disk is damaged: {error}")


def text(read: Any) -> str:
    """Of a column that was read as bytes."""
    return read.decode(errors="backslashreplace") if isinstance(read, bytes) else ""


def sealed(queue: QueueId, first: Any, last: Any, epoch: Any, enqueued: Any, expires: Any, topic: Any) -> int | None:
    """The checksum a run with these columns has; None when they are not even of their types."""
    if not isinstance(enqueued, float) or not isinstance(expires, float | None):
        return None
    return of_run(queue, first=first, last=last, epoch=epoch, enqueued=enqueued, expires=expires, topic=topic)


def status(connection: apsw.Connection, *, now: float, max_bytes: int, in_flight: InFlight) -> outbox.OutboxStatus:
    """Counters as they are; what has expired but is still stored counts as expired already, unless it is in flight."""
    gone = {
        queue: (count, size)
        for queue, count, size in rows(
            connection,
            "SELECT queue, sum(count), sum(bytes) FROM runs INDEXED BY runs_by_expiry"
            " WHERE expires <= ? GROUP BY queue",
            (now,),
        )
    }
    dead = dict(rows(connection, "SELECT queue, count(*) FROM dead_letters GROUP BY queue"))
    found: list[outbox.QueueStatus] = []
    for row in rows(
        connection,
        "SELECT id, endpoint, priority, checkpoint, stored, bytes, accepted, sent, expired, evicted, damaged"
        " FROM queues ORDER BY endpoint, priority",
    ):
        number, endpoint, priority, at, stored, size, accepted, sent, expired, evicted, damaged = row
        queue = QueueId(endpoint, priority)
        gone_count, gone_size = gone.get(number, (0, 0))
        out_count, out_size = _expired_in_flight(connection, number, in_flight.of(queue), now)
        gone_count, gone_size = gone_count - out_count, gone_size - out_size
        passed_count, passed_size = rows(
            connection,
            f"SELECT count(*), coalesce(sum(r.size), 0) FROM {WITH_RUNS}"
            " WHERE r.queue = ? AND r.offset <= ? AND (u.expires IS NULL OR u.expires > ?)",
            (number, at, now),
        )[0]
        oldest = rows(
            connection,
            f"SELECT u.enqueued FROM {WITH_RUNS}"
            " WHERE r.queue = ? AND r.offset > ? AND (u.expires IS NULL OR u.expires > ?) ORDER BY r.offset LIMIT 1",
            (number, at, now),
        )
        found.append(
            outbox.QueueStatus(
                endpoint=endpoint,
                priority=priority,
                queue=str(queue),
                length=stored - gone_count - passed_count,
                bytes=size - gone_size - passed_size,
                oldest_age_seconds=max(0.0, now - (oldest[0][0] or 0.0)) if oldest else 0.0,
                accepted=accepted,
                sent=sent,
                expired=expired + gone_count + passed_count,
                evicted=evicted,
                damaged=damaged,
                dead_lettered=dead.get(number, 0),
                checkpoint=at,
                in_doubt=in_flight.ended_in_doubt[queue],
            )
        )
    used = rows(connection, "SELECT bytes FROM usage")[0][0]
    return outbox.OutboxStatus(queues=tuple(found), bytes=used, max_bytes=max_bytes, dead_letters=sum(dead.values()))


def _expired_in_flight(connection: apsw.Connection, number: int, out: frozenset[int], now: float) -> tuple[int, int]:
    """How many references that are in flight are over by their time, and their bytes."""
    if not out:
        return 0, 0
    [(count, size)] = rows(
        connection,
        f"SELECT count(*), coalesce(sum(r.size), 0) FROM {WITH_RUNS} WHERE r.queue = ?"
        " AND r.offset IN (SELECT value FROM json_each(?)) AND u.expires <= ?",
        (number, json.dumps(sorted(out)), now),
    )
    return count, size


class Dead(NamedTuple):
    """Dead letters as they were put aside, and the numbers of those that are damaged."""

    letters: list[outbox.DeadLetter]
    damaged: list[int]


def dead_letters(connection: apsw.Connection, *, after: int, limit: int) -> Dead:
    return select_dead(connection, "d.number > ? ORDER BY d.number LIMIT ?", (after, limit))


def select_dead(connection: apsw.Connection, where: str, bindings: Sequence[Any]) -> Dead:
    found = Dead([], [])
    for row in rows(
        connection,
        "SELECT d.number, d.queue, d.offset, d.epoch, d.ttl, CAST(d.topic AS BLOB), CAST(d.at AS BLOB),"
        " CAST(d.code AS BLOB), CAST(d.reason AS BLOB), d.content, d.checksum,"
        f" q.endpoint, q.priority FROM dead_letters d JOIN queues q ON q.id = d.queue WHERE {where}",
        bindings,
    ):
        number, queue, offset, epoch, ttl, *texts, content, expected, endpoint, priority = row
        topic, at, code, reason = map(text, texts)
        if sealed_letter((queue, offset, epoch, ttl, topic, at, code, reason), content) != expected:
            found.damaged.append(number)
            continue
        found.letters.append(
            outbox.DeadLetter(
                number=number,
                queue=QueueId(endpoint, priority),
                epoch=epoch,
                offset=offset,
                topic=topic,
                ttl_seconds=ttl,
                at=at,
                code=code,
                reason=reason,
                content=content,
            )
        )
    return found


def sealed_letter(fields: Sequence[Any], content: Any) -> int | None:
    """The checksum of a dead letter with these columns (queue to reason); None when its content is no content."""
    return of_row(*fields, content=content) if isinstance(content, bytes) else None


def load_stamp(connection: apsw.Connection) -> Stamp | None:
    found = rows(connection, "SELECT boot_id, boot_seconds, wall_seconds, age_seconds FROM clock")
    if not found:
        return None
    boot_id, boot_seconds, wall_seconds, age_seconds = found[0]
    return Stamp(boot_id=boot_id, boot_seconds=boot_seconds, wall_seconds=wall_seconds, age_seconds=age_seconds)
