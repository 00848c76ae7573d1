"""What the outbox reads from its tables, one function a question; each runs inside one snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import apsw

from fairlead_edge import outbox
from fairlead_edge.age import Stamp
from fairlead_edge.io import segment as segment_io
from fairlead_edge.queue_id import QueueId

SEGMENTS_KEPT: Final = 4
"""Unpacked segments one reader keeps: references of one queue mostly walk through one segment after the other."""


WITH_RUNS: Final = "references_ r CROSS JOIN runs u ON u.segment = r.segment AND u.queue = r.queue"
"""References in their order, each with what its run says; CROSS keeps SQLite from starting at the runs."""


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
) -> list[outbox.Item]:
    """See ``outbox.Outbox.fetch``; a run of expired references is passed over without reading their bodies."""
    items: list[outbox.Item] = []
    known = rows(
        connection,
        "SELECT id, checkpoint FROM queues WHERE endpoint = ? AND priority = ?",
        (queue.endpoint, queue.priority),
    )
    if not known:
        return items
    number, checkpoint = known[0]
    read = Bodies(connection)
    room = bytes_max
    row: Any
    for row in connection.execute(  # lazily: rows beyond bytes_max are never read
        f"SELECT r.offset, u.epoch, u.topic, u.enqueued, u.expires, r.segment, r.start, r.size FROM {WITH_RUNS}"
        " WHERE r.queue = ? AND r.offset > ? AND (u.expires IS NULL OR u.expires > ?) ORDER BY r.offset LIMIT ?",
        (number, max(after, checkpoint), now, messages_max),
    ):
        offset, epoch, topic, enqueued, expires, segment, start, size = row
        items.append(outbox.Item(offset, epoch, topic, enqueued, expires, read.body(segment, start, size)))
        room -= size
        if room <= 0:
            break
    return items


class Bodies:
    """Reads bodies out of their segments; unpacks each segment once in its life, and keeps the latest few."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._unpacked: dict[int, bytes] = {}

    def body(self, segment: int, start: int, size: int) -> bytes:
        content = self._unpacked.get(segment)
        if content is None:
            [(encoding, packed)] = rows(
                self._connection, "SELECT encoding, content FROM segments WHERE id = ?", (segment,)
            )
            content = segment_io.unpack(encoding, packed)
            while len(self._unpacked) >= SEGMENTS_KEPT:
                del self._unpacked[next(iter(self._unpacked))]
            self._unpacked[segment] = content
        return content[start : start + size]


def status(connection: apsw.Connection, *, now: float, max_bytes: int) -> outbox.OutboxStatus:
    """Counters as they are; what has expired but is still stored counts as expired already."""
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
        "SELECT id, endpoint, priority, checkpoint, stored, bytes, accepted, sent, expired, evicted FROM queues"
        " ORDER BY endpoint, priority",
    ):
        number, endpoint, priority, at, stored, size, accepted, sent, expired, evicted = row
        gone_count, gone_size = gone.get(number, (0, 0))
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
                queue=str(QueueId(endpoint, priority)),
                length=stored - gone_count - passed_count,
                bytes=size - gone_size - passed_size,
                oldest_age_seconds=max(0.0, now - oldest[0][0]) if oldest else 0.0,
                accepted=accepted,
                sent=sent,
                expired=expired + gone_count + passed_count,
                evicted=evicted,
                dead_lettered=dead.get(number, 0),
                checkpoint=at,
            )
        )
    used = rows(connection, "SELECT bytes FROM usage")[0][0]
    return outbox.OutboxStatus(queues=tuple(found), bytes=used, max_bytes=max_bytes, dead_letters=sum(dead.values()))


def dead_letters(connection: apsw.Connection, *, after: int, limit: int) -> list[outbox.DeadLetter]:
    return select_dead(connection, "d.number > ? ORDER BY d.number LIMIT ?", (after, limit))


def select_dead(connection: apsw.Connection, where: str, bindings: Sequence[Any]) -> list[outbox.DeadLetter]:
    return [
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
        for number, endpoint, priority, epoch, offset, topic, ttl, at, code, reason, content in rows(
            connection,
            "SELECT d.number, q.endpoint, q.priority, d.epoch, d.offset, d.topic, d.ttl, d.at, d.code, d.reason,"
            f" d.content FROM dead_letters d JOIN queues q ON q.id = d.queue WHERE {where}",
            bindings,
        )
    ]


def load_stamp(connection: apsw.Connection) -> Stamp | None:
    found = rows(connection, "SELECT boot_id, boot_seconds, wall_seconds, age_seconds FROM clock")
    if not found:
        return None
    boot_id, boot_seconds, wall_seconds, age_seconds = found[0]
    return Stamp(boot_id=boot_id, boot_seconds=boot_seconds, wall_seconds=wall_seconds, age_seconds=age_seconds)
