"""What receipts are given from: messages that wait, left, or were set aside, found by their ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from fairlead_edge.checksum import of_row
from fairlead_edge.io.outbox.tables import dead_letters
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.outbox.tables.bodies import Bodies, text
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.gaps import Damage
from fairlead_edge.outbox.in_flight import InFlight
from fairlead_edge.outbox.queue_id import QueueId
from fairlead_edge.outbox.receipts import departure as pages
from fairlead_edge.outbox.receipts import mark
from fairlead_edge.outbox.receipts.departure import Departure
from fairlead_edge.outbox.receipts.receipt import AHEAD_MAX, Buried, Left, Waiting, Way

LETTERS_MAX = 16
"""Dead letters in which an id is found: its own, and those that quote it."""


def whereabouts(connection: apsw.Connection, *, id: bytes, in_flight: InFlight) -> list[Way]:
    """The ways of one message.  What the disk changed is not among them."""
    return [*_waiting(connection, id, in_flight), *_left(connection, id), *_buried(connection, id)]


def _waiting(connection: apsw.Connection, id: bytes, in_flight: InFlight) -> list[Way]:
    found: list[Way] = []
    read = Bodies(connection)
    for _, number, endpoint, priority, checkpoint, first, marks in rows(connection, sql.RUNS_OF, (id,)):
        at = mark.offset_of(marks, id) if isinstance(marks, bytes) else None
        if at is None or not isinstance(first, int):
            continue
        queue = QueueId(endpoint, priority)
        offset = first + at
        for row in rows(connection, sql.ONE_MESSAGE, (number, offset)):
            item = read.checked(queue, row)
            if isinstance(item, Damage) or mark.id_in(item.content) != id:
                continue
            [(ahead,)] = rows(connection, sql.AHEAD, (number, checkpoint, offset, AHEAD_MAX))
            found.append(
                Waiting(
                    queue=queue,
                    topic=item.topic,
                    enqueued=item.enqueued,
                    expires=item.expires,
                    ahead=ahead,
                    in_flight=offset in in_flight.of(queue),
                    author=mark.author_in(item.content),
                )
            )
    return found


def _left(connection: apsw.Connection, id: bytes) -> list[Way]:
    latest: dict[tuple[QueueId, str], Way] = {}
    for _, endpoint, priority, *fields in rows(connection, sql.DEPARTURES_OF, (id,)):
        departure = _departure(fields)
        entry = pages.find(departure, id) if departure is not None else None
        if departure is not None and entry is not None:
            queue = QueueId(endpoint, priority)
            latest[queue, departure.topic] = Left(queue=queue, departure=departure, entry=entry)
    return list(latest.values())


def _departure(fields: Sequence[Any]) -> Departure | None:
    """None where it is not what was written."""
    queue, outcome, left_at, topic, service, generation, first, newest, entries, expected = fields
    if not isinstance(entries, bytes):
        return None
    texts = [text(each) for each in (outcome, topic, service, first, newest)]
    made = of_row(queue, texts[0], left_at, *texts[1:3], generation, *texts[3:], content=entries)
    if made != expected:
        return None
    said: Any = texts[0]
    return Departure(
        outcome=said, left_at=left_at, topic=texts[1], service=texts[2], generation=generation, first=texts[3],
        newest=texts[4], entries=entries,
    )  # fmt: skip


def _buried(connection: apsw.Connection, id: bytes) -> list[Way]:
    letters = dead_letters.containing(connection, id.hex().encode(), limit=LETTERS_MAX)
    return [
        Buried(
            queue=letter.queue,
            topic=letter.topic,
            number=letter.number,
            at=letter.at,
            code=letter.code,
            reason=letter.reason,
            author=mark.author_in(letter.content),
        )
        for letter in letters
        if mark.id_in(letter.content) == id
    ]
