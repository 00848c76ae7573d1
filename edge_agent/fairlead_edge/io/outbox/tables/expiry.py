"""Time to live in the tables: expired messages are removed, and runs follow a changed time to live.

Expired messages are found by an index or at the head of each queue.  A run that inherits its time to live from an
EdgeRoutes object follows that object, unless it has already expired: a longer time to live brings nothing back.  If the
object is deleted, its last value stays in force.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

from fairlead_edge.io.outbox.tables import dead_letters, log, receipt_tables
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.outbox.tables.append import forget_keys
from fairlead_edge.io.outbox.tables.bodies import is_sound
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox import outbox
from fairlead_edge.outbox.envelope import expiry_checksum
from fairlead_edge.outbox.queues import InFlight, QueueId

_Expired = dict[tuple[int, QueueId], list[int]]
"""Offsets by queue (number and name)."""


class Swept(NamedTuple):
    """What was removed: offsets by queue, and the number of dead letters."""

    messages: list[tuple[QueueId, list[int]]]
    letters: int


def sweep(
    connection: apsw.Connection, *, now: float, entire: bool, in_flight: InFlight, refused_seconds: float = 0.0
) -> Swept:
    """See ``outbox.Outbox.sweep``.  Old idempotency keys are deleted in the same step."""
    forget_keys(connection, now=now)
    letters = 0
    if refused_seconds:
        dead_letters.date_refused(connection, now)
        letters = dead_letters.expire_refused(connection, before=now - refused_seconds)
    found = _expired_anywhere if entire else _expired_at_heads
    swept: list[tuple[QueueId, list[int]]] = []
    for (number, queue), offsets in found(connection, now, in_flight).items():
        lost = receipt_tables.note_lost(connection, number, offsets, "expired", now)
        removed = log.remove(connection, number, offsets)
        receipt_tables.note_departures(connection, number, lost, runs=len(removed.runs))
        connection.execute(sql.COUNT_EXPIRED, (removed.messages, number))
        if removed.messages:
            swept.append((queue, offsets))
    return Swept(swept, letters)


def _is_over(queue: QueueId, envelope: Sequence[Any], now: float) -> bool:
    """Whether its time to live has ended.  A damaged envelope is not believed; a scrub will set it aside."""
    expires = envelope[4]
    return is_sound(queue, envelope) and expires is not None and expires <= now


def _expired_anywhere(connection: apsw.Connection, now: float, in_flight: InFlight) -> _Expired:
    """Expired messages anywhere, by the expiry index, run by run."""
    found: _Expired = defaultdict(list)
    left = outbox.SWEEP_ROWS
    for number, endpoint, priority, segment, *envelope in rows(connection, sql.EXPIRED_RUNS, (now, outbox.SWEEP_ROWS)):
        queue = QueueId(endpoint, priority)
        if not _is_over(queue, envelope, now):
            continue
        offsets = rows(connection, sql.OFFSETS_OF_RUN, (number, *envelope[:2], segment, left))
        going = in_flight.not_in_flight(queue, [offset for (offset,) in offsets])
        if going:
            found[number, queue] += going
        left -= len(going)
        if left <= 0:
            break
    return found or _expired_at_heads(connection, now, in_flight)


def _expired_at_heads(connection: apsw.Connection, now: float, in_flight: InFlight) -> _Expired:
    """Expired messages from each head up to the first live one; those below the checkpoint have expired, too."""
    found: _Expired = {}
    left = outbox.SWEEP_ROWS
    for number, endpoint, priority, checkpoint in rows(connection, sql.QUEUES_WITH_MESSAGES):
        offsets: list[int] = []
        queue = QueueId(endpoint, priority)
        out = in_flight.of(queue)
        row: Any
        for row in connection.execute(sql.ENVELOPES_FROM_HEAD, (number, left)):  # lazily: the first is mostly live
            offset, *envelope = row
            if offset in out:
                continue
            if offset > checkpoint and not _is_over(queue, envelope, now):
                break
            offsets.append(offset)
        found[number, queue] = offsets
        left -= len(offsets)
    return found


# ---- inherited time to live ------------------------------------------------------------------------------------------

STEP_ROWS = 1000
"""How many runs one transaction changes; bounded, so that producers do not wait long."""


class RunPlace(NamedTuple):
    """The run after which the next step begins."""

    segment: int = -1
    queue: int = -1


class StaleRun(NamedTuple):
    """A run whose expiry differs from what its object says now."""

    segment: int
    queue: int
    expires: float | None
    checksum: int


def stale(
    connection: apsw.Connection, name: str, ttl_seconds: float | None, *, after: RunPlace, now: float
) -> list[StaleRun]:
    """The next runs of the object whose expiry is outdated; if fewer than ``STEP_ROWS``, they are the last."""
    return [
        StaleRun(segment, queue, None if ttl_seconds is None else enqueued + ttl_seconds, checksum)
        for segment, queue, enqueued, checksum in rows(
            connection, sql.STALE_RUNS, (name, now, ttl_seconds, *after, STEP_ROWS)
        )
        if isinstance(enqueued, float) and isinstance(checksum, int)
    ]


def follow(connection: apsw.Connection, runs: list[StaleRun], *, now: float) -> None:
    """Set their expiry to what their object says."""
    connection.executemany(
        sql.SET_EXPIRY,
        [(run.expires, expiry_checksum(run.checksum, run.expires), run.segment, run.queue, now) for run in runs],
    )
