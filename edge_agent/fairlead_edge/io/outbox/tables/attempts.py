"""Attempts in their table: which messages are in modules' hands, and which wait for their next attempt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import apsw

from fairlead_edge.checksum import of_row
from fairlead_edge.io.outbox.tables import log
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.attempt import Attempt
from fairlead_edge.outbox.queue_id import QueueId


def note(connection: apsw.Connection, queue: QueueId, attempts: Sequence[Attempt]) -> None:
    """See ``outbox.Outbox.note_attempts``; of what is not there any more nothing is noted."""
    number = log.number_of(connection, queue)
    if number is None:
        return
    for each in attempts:
        row = _row(number, each)
        connection.execute(sql.NOTE_ATTEMPT, (*row, of_row(*row), number, each.offset))


def read(connection: apsw.Connection) -> dict[QueueId, list[Attempt]]:
    """Of all queues; what the disk damaged is left out, so that the message counts as never given out."""
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


_Row = tuple[int, int, bytes, int, int, float, float, float]
"""Queue, offset, id, number, leased, until, delay, waited."""


def _row(number: int, attempt: Attempt) -> _Row:
    times = float(attempt.until), float(attempt.delay_seconds), float(attempt.waited_seconds)
    return (number, attempt.offset, attempt.id.encode(), attempt.number, int(attempt.leased), *times)
