"""Messages that make room for more urgent ones."""

from __future__ import annotations

from typing import NamedTuple

import apsw

from fairlead_edge.io.outbox.tables import log
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.outbox.tables.receipts import departures
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox import outbox
from fairlead_edge.outbox.checkpoint import NOTHING_DONE
from fairlead_edge.outbox.in_flight import InFlight
from fairlead_edge.outbox.queue_id import QueueId, base, rank


class Eviction(NamedTuple):
    """What may not be evicted, and what was."""

    in_flight: InFlight
    evicted: list[tuple[QueueId, list[int]]]
    now: float = 0.0
    """Of the store's clock."""


def evict(connection: apsw.Connection, spared: int, excess: int, eviction: Eviction) -> int:
    """Oldest first from the least urgent queue on, until ``excess`` bytes are free; returns the bytes freed.

    Queues of the priority ``spared`` and more urgent ones stay as they are.
    """
    freed = 0
    eviction.evicted.clear()  # a job may run twice
    for number, endpoint, priority in _less_urgent(connection, spared):
        queue = QueueId(endpoint, priority)
        after = NOTHING_DONE
        while freed < excess:
            oldest = rows(connection, sql.OLDEST_OFFSETS, (number, after, outbox.EVICT_ROWS))
            if not oldest:
                break
            after = oldest[-1][0]
            going = eviction.in_flight.spare(queue, [offset for (offset,) in oldest])
            before = rows(connection, sql.USED_BYTES)[0][0]
            lost = departures.lost(connection, number, going, "evicted", eviction.now)
            removed = log.remove(connection, number, going)
            departures.note(connection, number, lost, runs=len(removed.runs))
            connection.execute(sql.COUNT_EVICTED, (removed.messages, number))
            freed += before - rows(connection, sql.USED_BYTES)[0][0]
            eviction.evicted.append((queue, going))
    return freed


def _less_urgent(connection: apsw.Connection, spared: int) -> list[tuple[int, str, int]]:
    """Queues (number, endpoint, priority), the least urgent first; a lane is as urgent as its priority."""
    found = [each for each in rows(connection, sql.NUMBERED_QUEUES) if base(each[2]) > spared]
    return sorted(found, key=lambda each: (-rank(each[2]), each[1]))
