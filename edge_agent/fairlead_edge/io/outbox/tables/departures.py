"""Messages that left, in a ring of pages (``departure``), written in the transaction in which they leave their queue.

Pages are numbered by the bytes of the ring up to their end, so that what is older than the ring is a range of numbers.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence

import apsw

from fairlead_edge.checksum import of_row
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.outbox.tables.bodies import text
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.receipts import departure as pages
from fairlead_edge.outbox.receipts import mark
from fairlead_edge.outbox.receipts.departure import RING_BYTES_MAX, Departure, Outcome

RING_PARTS = 32
"""What is older than the ring goes in so many parts: to forget with each page costs as much as to write it."""


def note(connection: apsw.Connection, queue: int, departures: Sequence[Departure]) -> None:
    """They left this queue; the oldest make room in the ring."""
    for each in departures:
        row = (queue, each.outcome, each.left_at, each.topic, each.service, each.generation, each.first, each.newest)
        values = (each.weight, *row, each.entries, of_row(*row, content=each.entries))
        try:
            [(number,)] = rows(connection, sql.INSERT_DEPARTURE, values)
        except apsw.MismatchError:  # the disk changed the newest number: no higher one is left
            connection.execute(sql.FORGET_ALL_DEPARTURES)
            [(number,)] = rows(connection, sql.INSERT_DEPARTURE, values)
        part = RING_BYTES_MAX // RING_PARTS
        if number // part != (number - each.weight) // part:
            connection.execute(sql.FORGET_DEPARTURES, (RING_BYTES_MAX,))


def note_lost(connection: apsw.Connection, queue: int, offsets: Sequence[int], outcome: Outcome, now: float) -> None:
    """These are about to be taken out of their queue; call before."""
    if not offsets:
        return
    found: dict[str, list[bytes]] = defaultdict(list)
    marks: dict[bytes, dict[int, bytes]] = {}
    for offset, first, kept, enqueued, topic in rows(connection, sql.MARKS_OF, (queue, json.dumps(list(offsets)))):
        if not isinstance(kept, bytes) or not isinstance(first, int) or not isinstance(enqueued, float):
            continue  # accepted by an older program, or damaged
        of_run = marks.get(kept)
        if of_run is None:
            of_run = marks[kept] = mark.by_offset(kept)
        if (named := of_run.get(offset - first)) is not None:
            found[text(topic)].append(pages.entry(named, enqueued))
    lost = [
        Departure(outcome=outcome, left_at=float(now), topic=topic, entries=b"".join(entries))
        for topic, entries in found.items()
    ]
    note(connection, queue, lost)


def oldest(connection: apsw.Connection) -> float | None:
    """When the oldest page left."""
    found = rows(connection, sql.OLDEST_DEPARTURE)
    return found[0][0] if found else None
