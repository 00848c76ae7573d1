"""Messages whose time to live ended: found by an index or from the head of each queue, and taken out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

from fairlead_edge.io.outbox.tables import dead_letters, log
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.outbox.tables.append import forget_keys
from fairlead_edge.io.outbox.tables.bodies import is_sound
from fairlead_edge.io.outbox.tables.receipts import departures
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox import outbox
from fairlead_edge.outbox.in_flight import InFlight
from fairlead_edge.outbox.queue_id import QueueId

_Expired = dict[tuple[int, QueueId], list[int]]
"""Offsets by number and name of their queue."""


class Swept(NamedTuple):
    """What went: offsets by queue, and how many dead letters."""

    messages: list[tuple[QueueId, list[int]]]
    letters: int


def sweep(
    connection: apsw.Connection, *, now: float, entire: bool, in_flight: InFlight, refused_seconds: float = 0.0
) -> Swept:
    """See ``outbox.Outbox.sweep``.  Keys that may be forgotten go in the same step."""
    forget_keys(connection, now=now)
    letters = 0
    if refused_seconds:
        dead_letters.date_refused(connection, now)
        letters = dead_letters.expire_refused(connection, before=now - refused_seconds)
    found = _expired_anywhere if entire else _expired_at_heads
    swept: list[tuple[QueueId, list[int]]] = []
    for (number, queue), offsets in found(connection, now, in_flight).items():
        lost = departures.lost(connection, number, offsets, "expired", now)
        removed = log.remove(connection, number, offsets)
        departures.note(connection, number, lost, runs=len(removed.runs))
        connection.execute(sql.COUNT_EXPIRED, (removed.messages, number))
        if removed.messages:
            swept.append((queue, offsets))
    return Swept(swept, letters)


def _is_over(queue: QueueId, envelope: Sequence[Any], now: float) -> bool:
    """Did its time to live end?  What a damaged envelope says of it is not believed; a scrub sets such aside."""
    expires = envelope[4]
    return is_sound(queue, envelope) and expires is not None and expires <= now


def _expired_anywhere(connection: apsw.Connection, now: float, in_flight: InFlight) -> _Expired:
    """By the expiry index, run by run."""
    found: _Expired = defaultdict(list)
    left = outbox.SWEEP_ROWS
    for number, endpoint, priority, segment, *envelope in rows(connection, sql.EXPIRED_RUNS, (now, outbox.SWEEP_ROWS)):
        queue = QueueId(endpoint, priority)
        if not _is_over(queue, envelope, now):
            continue
        offsets = rows(connection, sql.OFFSETS_OF_RUN, (number, *envelope[:2], segment, left))
        going = in_flight.spare(queue, [offset for (offset,) in offsets])
        if going:
            found[number, queue] += going
        left -= len(going)
        if left <= 0:
            break
    return found or _expired_at_heads(connection, now, in_flight)


def _expired_at_heads(connection: apsw.Connection, now: float, in_flight: InFlight) -> _Expired:
    """From the oldest on until the first live one; what the checkpoint has passed was expired when it passed."""
    found: _Expired = {}
    left = outbox.SWEEP_ROWS
    for number, endpoint, priority, checkpoint in rows(connection, sql.QUEUES_WITH_MESSAGES):
        offsets: list[int] = []
        queue = QueueId(endpoint, priority)
        out = in_flight.of(queue)
        row: Any
        for row in connection.execute(sql.ENVELOPES_FROM_HEAD, (number, left)):  # lazily: mostly the first one is live
            offset, *envelope = row
            if offset in out:
                continue
            if offset > checkpoint and not _is_over(queue, envelope, now):
                break
            offsets.append(offset)
        found[number, queue] = offsets
        left -= len(offsets)
    return found
