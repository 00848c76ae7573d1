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
from fairlead_edge.io.outbox.tables.receipts import names
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.receipts import departure as pages
from fairlead_edge.outbox.receipts.departure import NAMES_BYTES, RING_BYTES_MAX, Departure, Outcome

RING_PARTS = 32
"""What is older than the ring goes in so many parts: to forget with each page costs as much as to write it."""


def note(connection: apsw.Connection, queue: int, departures: Sequence[Departure], *, runs: int = 0) -> None:
    """They left this queue, and ended so many runs; the oldest make room in the ring."""
    ended = NAMES_BYTES * runs
    for each in departures:
        weight, ended = each.weight + ended, 0
        place = (queue, each.low, each.high, each.among, each.epoch, each.outcome, each.left_at)
        row = (*place, each.topic, each.service, each.generation, each.first, each.newest)
        values = (weight, *row, of_row(*row))
        try:
            [(number,)] = rows(connection, sql.INSERT_DEPARTED, values)
        except apsw.MismatchError:  # the disk changed the newest number: no higher one is left
            connection.execute(sql.FORGET_ALL_DEPARTED)
            names.drop_below(connection)
            [(number,)] = rows(connection, sql.INSERT_DEPARTED, values)
        part = RING_BYTES_MAX // RING_PARTS
        if number // part != (number - weight) // part:
            _forget(connection)


def _forget(connection: apsw.Connection) -> None:
    gone: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for queue, low, high in rows(connection, sql.FORGET_DEPARTED, (RING_BYTES_MAX,)):
        if isinstance(queue, int) and isinstance(low, int) and isinstance(high, int):
            gone[queue].append((low, high))
    for queue, found in gone.items():
        names.drop_between(connection, queue, found)


def lost(
    connection: apsw.Connection, queue: int, offsets: Sequence[int], outcome: Outcome, now: float
) -> list[Departure]:
    """Pages of what is about to be taken out of its queue; call before, and ``note`` them after."""
    if not offsets:
        return []
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for offset, epoch, topic in rows(connection, sql.TOPICS_OF, (queue, json.dumps(list(offsets)))):
        if isinstance(offset, int) and isinstance(epoch, int):
            found[text(topic), epoch].append(offset)
    return [
        Departure(
            outcome=outcome, left_at=float(now), topic=topic, epoch=epoch, low=page[0], high=page[-1],
            among=pages.among(page),
        )
        for (topic, epoch), of_topic in found.items()
        for page in pages.pages(of_topic)
    ]  # fmt: skip


def oldest(connection: apsw.Connection) -> float | None:
    """When the oldest page left."""
    found = rows(connection, sql.OLDEST_DEPARTED)
    return found[0][0] if found else None
