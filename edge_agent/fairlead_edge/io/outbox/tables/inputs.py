"""Which messages from the cloud were stored in queues, and their states."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import apsw

from fairlead_edge.checksum import of_row
from fairlead_edge.io.outbox.tables import log
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.outbox.tables.append import append_once
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox import outbox
from fairlead_wire import message
from fairlead_wire.errors import Temporary

KEPT_SECONDS: Final = 3600.0
"""How long a message is remembered after its expiry: the clock of a hub that sends it again may be this much behind."""
KEPT_MAX: Final = 50_000
BUSY_SECONDS: Final = 30.0

DELIVERED: Final = "delivered"
CONSUMED: Final = "consumed"
DEAD_LETTERED: Final = "dead_lettered"


def take_input(
    connection: apsw.Connection,
    entry: outbox.Entry,
    *,
    epoch: int,
    now: float,
    max_bytes: int,
) -> bool:
    """Store the message; returns False if it was stored before.

    Raises ``StoreFull``, and ``Temporary`` if too many are remembered.
    """
    [to] = entry.references
    assert to.ttl_seconds is not None
    if rows(connection, sql.INPUT_BY_ID, (entry.id,)):
        return False
    connection.execute(sql.FORGET_INPUTS, (now - KEPT_SECONDS,))
    if rows(connection, sql.COUNT_INPUTS)[0][0] >= KEPT_MAX:
        reason = f"{KEPT_MAX} messages from the cloud are remembered, none of them expired an hour ago"
        raise Temporary(reason, retry_after_seconds=BUSY_SECONDS)
    append_once(connection, [entry], epoch=epoch, now=now, max_bytes=max_bytes, idempotency=None)
    queue = log.number_of(connection, to.queue)
    [(end,)] = rows(connection, sql.END_OF_QUEUE, (queue,))
    row = (entry.id, queue, end - 1, now + to.ttl_seconds, DELIVERED)
    connection.execute(sql.INSERT_INPUT, (*row, of_row(*row)))
    return True


def note_input_states(connection: apsw.Connection, queue: int, offsets: Sequence[int], state: str) -> None:
    """Set the state of those messages that came from the cloud."""
    if not offsets or not rows(connection, sql.QUEUE_HAS_INPUTS, (queue,)):
        return
    for *row, checksum in rows(connection, sql.INPUTS_AT, (queue, json.dumps(list(offsets)))):
        if of_row(*row) == checksum:
            connection.execute(sql.CHANGE_INPUT, (state, of_row(*row[:4], state), row[0]))


def input_states(connection: apsw.Connection, ids: Sequence[str], *, now: float) -> list[message.InputReached]:
    """The states of these messages; a missing one is unknown, or no longer known."""
    found = []
    for id in ids:
        for *row, checksum in rows(connection, sql.INPUT_BY_ID, (id,)):
            if of_row(*row) == checksum:
                found.append(message.InputReached(message=id, state=_state(connection, row, now)))
    return found


def _state(connection: apsw.Connection, row: Sequence[Any], now: float) -> message.InputState:
    _, queue, offset, expires, state = row
    if state == CONSUMED:
        return "consumed"
    if state == DEAD_LETTERED:
        return "dead_lettered"
    if rows(connection, sql.INPUT_WAITS, (queue, offset)) and (
        now < expires or rows(connection, sql.INPUT_IS_LEASED, (queue, offset))
    ):
        return "delivered"  # a module that has leased it may still acknowledge it after its expiry
    return "expired" if now >= expires else "evicted"
