"""What receipts are given from: messages that wait, left, or were set aside, found by their ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import apsw

from fairlead_edge.checksum import of_row
from fairlead_edge.io.outbox.tables import dead_letters
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.outbox.tables.bodies import Bodies, text
from fairlead_edge.io.outbox.tables.receipts import names
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.gaps import Damage
from fairlead_edge.outbox.in_flight import InFlight
from fairlead_edge.outbox.queue_id import QueueId
from fairlead_edge.outbox.receipts import departure as pages
from fairlead_edge.outbox.receipts import mark, named
from fairlead_edge.outbox.receipts.departure import Departure
from fairlead_edge.outbox.receipts.named import SPAN_MAX, Names
from fairlead_edge.outbox.receipts.receipt import AHEAD_MAX, DeadLettered, LeftQueue, Waiting, Way

LETTERS_MAX = 16
"""Dead letters in which an id is found: its own, and those that quote it."""


def whereabouts(connection: apsw.Connection, *, id: bytes, in_flight: InFlight) -> list[Way]:
    """The ways of one message.  What the disk changed is not among them."""
    waiting: list[Way] = []
    latest: dict[tuple[QueueId, str], tuple[int, LeftQueue]] = {}
    for number, *fields in rows(connection, sql.NAMES_WITH, (id,)):
        found = _names(number, fields)
        if found is None:
            continue
        queue, among, checksum = found
        one = named.find(among, id)
        known = rows(connection, sql.QUEUE_NUMBERED, (queue,))
        if one is None or not known:
            continue
        endpoint, priority, checkpoint = known[0]
        place = _Whereabouts(queue, QueueId(endpoint, priority), one.offset)
        present = rows(connection, sql.ONE_MESSAGE, (queue, one.offset))
        if present:
            waiting += _waiting(connection, id, place, present, checkpoint, in_flight)
            continue
        for page, departure in _left(connection, place):
            index = pages.index_of(departure, one.offset)
            if index is None or among.checksum(queue, departure.epoch) != checksum:
                continue  # of another message, which had this offset in another life of the store
            entry = pages.entry(departure, index, author=one.author, enqueued=among.enqueued)
            way = LeftQueue(queue=place.name, departure=departure, entry=entry)
            key = place.name, departure.topic
            if key not in latest or latest[key][0] < page:
                latest[key] = page, way
    return [*waiting, *(way for _, way in latest.values()), *_dead_lettered(connection, id)]


class _Whereabouts(NamedTuple):
    queue: int
    name: QueueId
    offset: int


def _names(number: int, fields: Sequence[Any]) -> tuple[int, Names, int] | None:
    """The queue's number, the row and its checksum; None where the disk changed even its types."""
    span, enqueued, ids, authors, offsets, checksum = fields
    if not isinstance(span, int) or not isinstance(enqueued, float):
        return None
    if not isinstance(ids, bytes) or not isinstance(authors, bytes) or not isinstance(offsets, bytes):
        return None
    queue, first = divmod(number, names.OFFSETS)
    return queue, Names(first=first, span=span, enqueued=enqueued, ids=ids, authors=authors, offsets=offsets), checksum


def _waiting(
    connection: apsw.Connection,
    id: bytes,
    place: _Whereabouts,
    present: Sequence[Any],
    checkpoint: int,
    in_flight: InFlight,
) -> Iterator[Way]:
    read = Bodies(connection)
    for row in present:
        item = read.checked(place.name, row)
        if isinstance(item, Damage) or mark.id_in(item.content) != id:
            continue
        [(ahead,)] = rows(connection, sql.AHEAD, (place.queue, checkpoint, place.offset, AHEAD_MAX))
        yield Waiting(
            queue=place.name,
            topic=item.topic,
            enqueued=item.enqueued,
            expires=item.expires,
            ahead=ahead,
            in_flight=place.offset in in_flight.of(place.name),
            author=mark.author_in(item.content),
        )


def _left(connection: apsw.Connection, place: _Whereabouts) -> Iterator[tuple[int, Departure]]:
    """Pages that may have it, with their numbers."""
    between = (place.queue, place.offset - SPAN_MAX + 1, place.offset)
    for number, *fields in rows(connection, sql.DEPARTED_AT, between):
        departure = _departure(fields)
        if departure is not None:
            yield number, departure


def _departure(fields: Sequence[Any]) -> Departure | None:
    """None where it is not what was written."""
    queue, low, high, among, epoch, outcome, left_at, topic, service, generation, first, newest, expected = fields
    texts = [text(each) for each in (outcome, topic, service, first, newest)]
    place = (queue, low, high, among, epoch, texts[0], left_at)
    if not isinstance(among, bytes) or of_row(*place, *texts[1:3], generation, *texts[3:]) != expected:
        return None
    said: Any = texts[0]
    return Departure(
        outcome=said, left_at=left_at, topic=texts[1], service=texts[2], generation=generation, first=texts[3],
        newest=texts[4], epoch=epoch, low=low, high=high, among=among,
    )  # fmt: skip


def _dead_lettered(connection: apsw.Connection, id: bytes) -> list[Way]:
    letters = dead_letters.containing(connection, id.hex().encode(), limit=LETTERS_MAX)
    return [
        DeadLettered(
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
