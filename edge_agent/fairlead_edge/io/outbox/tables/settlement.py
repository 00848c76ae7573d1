"""Delivery in the tables: attempts while a message is not done, and settlement once it is sent or refused."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence

import apsw

from fairlead_edge.checksum import of_row
from fairlead_edge.io.outbox.tables import dead_letters, inputs, log, receipt_tables
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.outbox.tables.append import append_once
from fairlead_edge.io.outbox.tables.bodies import Bodies
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.gaps import Damage
from fairlead_edge.outbox.outbox import Entry, Refusal, RefusedMessage, last_refused
from fairlead_edge.outbox.queues import NOTHING_DONE, Attempt, QueueId
from fairlead_edge.outbox.receipts.departure import Departure
from fairlead_edge.routes.endpoints import UPSTREAM


def settle(
    connection: apsw.Connection,
    queue: QueueId,
    *,
    sent: Sequence[int],
    refused: Sequence[Refusal],
    checkpoint: int,
    at: str,
    departures: Sequence[Departure] = (),
) -> list[Damage]:
    """See ``outbox.Outbox.settle``; returns refused messages that turn out to be damaged and are not removed."""
    number = log.number_of(connection, queue)
    if number is None:
        return []
    if queue.endpoint != UPSTREAM:
        inputs.note_input_states(connection, number, sent, inputs.CONSUMED)
        inputs.note_input_states(connection, number, [refusal.offset for refusal in refused], inputs.DEAD_LETTERED)
    damaged = _dead_letter(connection, number, queue, refused, at)
    removed = log.remove(connection, number, sent)
    receipt_tables.note_departures(connection, number, departures, runs=len(removed.runs))
    if removed.runs and not departures:
        receipt_tables.drop_names_between(connection, number, removed.runs)  # a run may have several rows of names
    if refused:
        receipt_tables.drop_names(connection, number, [refusal.offset for refusal in refused])
    connection.execute(sql.COUNT_SENT, (removed.messages, checkpoint, number))
    return damaged


def refuse(
    connection: apsw.Connection,
    refused: Sequence[RefusedMessage],
    *,
    epoch: int,
    now: float,
    at: str,
    max_bytes: int,
    refused_bytes_max: int,
) -> int:
    """See ``outbox.Outbox.refuse``; returns how many dead letters of refused input were evicted.

    It is one step, so that a message is never found in its queue.
    """
    entries = [each.entry for each in refused]
    append_once(connection, entries, epoch=epoch, now=now, max_bytes=max_bytes, idempotency=None)
    for queue, refusals in last_refused(refused, lambda queue: _next_offset(connection, queue)).items():
        settle(connection, queue, sent=(), refused=refusals, checkpoint=NOTHING_DONE, at=at)
    dead_letters.date_refused(connection, now)
    return dead_letters.evict_refused(connection, bytes_max=refused_bytes_max)


def route_again(
    connection: apsw.Connection,
    queue: QueueId,
    *,
    routed: Sequence[tuple[int, Entry | None]],
    epoch: int,
    now: float,
    max_bytes: int,
) -> int:
    """See ``outbox.Outbox.route_again``."""
    number = log.number_of(connection, queue)
    if number is None:
        return 0
    listed = json.dumps([offset for offset, _ in routed])
    there = {offset for (offset,) in rows(connection, sql.PRESENT_OFFSETS, (number, listed))}
    removed = log.remove(connection, number, sorted(there))
    receipt_tables.drop_names(connection, number, there)
    connection.execute(sql.COUNT_SENT, (removed.messages, NOTHING_DONE, number))
    entries = [entry for offset, entry in routed if entry is not None and offset in there]
    append_once(connection, entries, epoch=epoch, now=now, max_bytes=max_bytes, idempotency=None)
    return removed.messages


def _next_offset(connection: apsw.Connection, queue: QueueId) -> int:
    number = log.number_of(connection, queue)
    return int(rows(connection, sql.EXTENT_OF_QUEUE, (number,))[0][0])


def _dead_letter(
    connection: apsw.Connection, number: int, queue: QueueId, refused: Sequence[Refusal], at: str
) -> list[Damage]:
    read = Bodies(connection)
    damaged: list[Damage] = []
    for refusal in refused:
        # Otherwise it no longer exists, and was counted elsewhere.
        for row in rows(connection, sql.ONE_MESSAGE, (number, refusal.offset)):
            item = read.checked(queue, row)
            if isinstance(item, Damage):
                damaged.append(item)
                continue
            ttl = None if item.expires is None else item.expires - item.enqueued
            letter = (number, refusal.offset, item.epoch, ttl, item.topic, at, refusal.code, refusal.reason)
            dead_letters.put(connection, letter, item.content)
    left = {each.offset for each in damaged}
    log.remove(connection, number, [refusal.offset for refusal in refused if refusal.offset not in left])
    return damaged


# ---- attempts --------------------------------------------------------------------------------------------------------


def note_attempts(connection: apsw.Connection, queue: QueueId, attempts: Sequence[Attempt]) -> None:
    """See ``outbox.Outbox.note_attempts``; attempts of missing messages are ignored."""
    number = log.number_of(connection, queue)
    if number is None:
        return
    for each in attempts:
        row = _attempt_row(number, each)
        connection.execute(sql.NOTE_ATTEMPT, (*row, of_row(*row), number, each.offset))


def read_attempts(connection: apsw.Connection) -> dict[QueueId, list[Attempt]]:
    """The attempts of all queues; damaged rows are omitted, so their messages count as never delivered."""
    found: dict[QueueId, list[Attempt]] = defaultdict(list)
    for endpoint, priority, number, offset, id, times, leased, until, delay, waited, expected in rows(
        connection, sql.ATTEMPTS
    ):
        if not isinstance(id, bytes) or of_row(number, offset, id, times, leased, until, delay, waited) != expected:
            continue
        found[QueueId(endpoint, priority)].append(
            Attempt(
                offset=offset,
                id=id.decode(errors="replace"),
                number=times,
                leased=bool(leased),
                until=until,
                delay_seconds=delay,
                waited_seconds=waited,
            )
        )
    return dict(found)


_AttemptRow = tuple[int, int, bytes, int, int, float, float, float]
"""Queue, offset, id, number, leased, until, delay, waited."""


def _attempt_row(number: int, attempt: Attempt) -> _AttemptRow:
    times = float(attempt.until), float(attempt.delay_seconds), float(attempt.waited_seconds)
    return (number, attempt.offset, attempt.id.encode(), attempt.number, int(attempt.leased), *times)
