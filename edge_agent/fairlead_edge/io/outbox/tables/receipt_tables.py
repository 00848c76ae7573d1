"""The data of receipts in the tables: names, departures, and how far tables have read topics.

    accepted ─keep_names▶ row ─▶ its messages wait ─▶ note_departures ─forgotten▶ drop
                                └── left without a page: drop

Names are rows of ids, numbered by queue and first offset.  There is no index: a row is found by its number, and an id
by a scan of all rows.  Departures are a ring of pages (``departure``), written in the transaction that removes the
messages from their queue, and numbered by the bytes of the ring up to their end, so that what is older than the ring is
a range of numbers.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from fairlead_edge.checksum import of_row
from fairlead_edge.io.outbox.tables import dead_letters
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.outbox.tables.bodies import Bodies, text
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.gaps import Damage
from fairlead_edge.outbox.queues import InFlight, QueueId
from fairlead_edge.outbox.receipts import departure as pages
from fairlead_edge.outbox.receipts import marks
from fairlead_edge.outbox.receipts.departure import NAMES_BYTES, RING_BYTES_MAX, Departure, Outcome
from fairlead_edge.outbox.receipts.marks import SPAN_MAX, Names
from fairlead_edge.outbox.receipts.receipt import AHEAD_MAX, DeadLettered, LeftQueue, TopicReach, Waiting, Way

OFFSETS_MAX: Final = 1 << 44
"""Numbers for each queue: at ten thousand messages a second they last fifty years; after that it has no receipts."""
QUEUES_MAX: Final = 1 << 18
_LOOK_OFFSETS: Final = 16 * SPAN_MAX
"""How many offsets are checked at once."""


def keep_names(
    connection: apsw.Connection, queue: int, epoch: int, enqueued: float, offsets: Sequence[int], found: Sequence[bytes]
) -> None:
    """Store the names of one run's messages, accepted now."""
    if not 0 <= queue < QUEUES_MAX or not 0 <= offsets[0] <= offsets[-1] < OFFSETS_MAX:
        return
    for each in marks.names(offsets, found, float(enqueued)):
        row = (each.span, each.enqueued, each.ids, each.authors, each.offsets, each.checksum(queue, epoch))
        connection.execute(sql.KEEP_NAMES, (queue * OFFSETS_MAX + each.first, *row))


def drop_names(connection: apsw.Connection, queue: int, offsets: Iterable[int]) -> None:
    """Delete the names of these offsets, except for rows with messages that still wait or are remembered."""
    for low, high in _stretches((offset, offset) for offset in offsets):
        _drop_names(connection, queue, low, high)


def drop_names_between(connection: apsw.Connection, queue: int, found: Iterable[tuple[int, int]]) -> None:
    """The same for ranges of offsets; ignores a range that is too long to be undamaged."""
    possible = (each for each in found if _is_stretch(*each))
    for low, high in _stretches(possible):
        _drop_names(connection, queue, low, high)


def drop_names_below(connection: apsw.Connection) -> None:
    """Delete names below everything that waits or is remembered in a queue: an older program removed the messages."""
    for queue, *_ in rows(connection, sql.NUMBERED_QUEUES):
        if not 0 <= queue < QUEUES_MAX:
            continue
        base, needed = queue * OFFSETS_MAX, _needed_from(connection, queue, 0, 0)
        connection.execute(sql.DROP_NAMES_BETWEEN, (base, base + needed, base + needed))


def _is_stretch(low: object, high: object) -> bool:
    return isinstance(low, int) and isinstance(high, int) and 0 <= high - low < _LOOK_OFFSETS


def _stretches(found: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    """Merge neighbouring ranges, up to what is checked at once."""
    begun: tuple[int, int] | None = None
    for low, high in sorted(found):
        if begun is not None and low - begun[1] <= SPAN_MAX and max(high, begun[1]) - begun[0] < _LOOK_OFFSETS:
            begun = begun[0], max(high, begun[1])
            continue
        if begun is not None:
            yield begun
        begun = low, high
    if begun is not None:
        yield begun


def _drop_names(connection: apsw.Connection, queue: int, low: int, high: int) -> None:
    if not 0 <= queue < QUEUES_MAX or not 0 <= low <= high < OFFSETS_MAX:
        return
    base, begin = queue * OFFSETS_MAX, max(0, low - SPAN_MAX + 1)
    clear = max(begin, _needed_from(connection, queue, begin, begin - SPAN_MAX + 1))
    # Mostly the oldest are forgotten and everything needed is above them: delete one range without checking each row.
    connection.execute(sql.DROP_NAMES_BETWEEN, (base + begin, base + min(high + 1, clear), base + clear))
    if clear <= high:
        _drop_each(connection, queue, max(low, clear - SPAN_MAX + 1), high)


def _needed_from(connection: apsw.Connection, queue: int, waiting: int, remembered: int) -> int:
    """The first offset still needed: of a message that waits, or of a page, from the given offsets on."""
    [(next_waiting,)] = rows(connection, sql.NEXT_REFERENCE, (queue, waiting))
    [(next_page,)] = rows(connection, sql.NEXT_DEPARTED, (queue, remembered))
    found = [each for each in (next_waiting, next_page) if isinstance(each, int)]
    return min(max(0, min(found, default=OFFSETS_MAX)), OFFSETS_MAX)


def _drop_each(connection: apsw.Connection, queue: int, low: int, high: int) -> None:
    base = queue * OFFSETS_MAX
    between = (base + max(0, low - SPAN_MAX + 1), base + high, base + low)
    found: list[tuple[int, int, int]] = []
    going: list[int] = []
    for number, span in rows(connection, sql.NAMES_OF_NONE, (queue, base, *between)):
        if isinstance(span, int) and 0 <= span < SPAN_MAX:
            found.append((number, number - base, number - base + span))
        else:
            going.append(number)  # damaged: no receipt can be made from it
    remembered, begin = _remembered(connection, queue, found) if found else (0, 0)
    going += [
        number for number, first, last in found if not remembered >> (first - begin) & ((1 << (last - first + 1)) - 1)
    ]
    connection.executemany(sql.DROP_NAMES, [(number,) for number in going])


def _remembered(connection: apsw.Connection, queue: int, found: Sequence[tuple[int, int, int]]) -> tuple[int, int]:
    """Which offsets between the first and last of these rows are in pages, one bit each, and the first offset."""
    begin, end = found[0][1], max(last for *_, last in found)
    remembered = 0
    for first, last, among in rows(connection, sql.DEPARTED_BETWEEN, (queue, begin - SPAN_MAX + 1, end, begin)):
        if not isinstance(first, int) or not isinstance(last, int) or not isinstance(among, bytes):
            continue  # damaged: even its types are wrong
        if 0 <= last - first < SPAN_MAX:
            shift = first - begin
            page = pages.bits(first, last, among)
            remembered |= page << shift if shift >= 0 else page >> -shift
    return remembered, begin


# ---- departures ------------------------------------------------------------------------------------------------------

RING_PARTS = 32
"""Old pages are deleted in this many parts of the ring: deleting with each page would cost as much as writing it."""


def note_departures(connection: apsw.Connection, queue: int, departures: Sequence[Departure], *, runs: int = 0) -> None:
    """Record departures from this queue, which ended ``runs`` runs; deletes the oldest pages if the ring is full."""
    ended = NAMES_BYTES * runs
    for each in departures:
        weight, ended = each.weight + ended, 0
        place = (queue, each.low, each.high, each.among, each.epoch, each.outcome, each.left_at)
        row = (*place, each.topic, each.service, each.generation, each.first, each.newest)
        values = (weight, *row, of_row(*row))
        try:
            [(number,)] = rows(connection, sql.INSERT_DEPARTED, values)
        except apsw.MismatchError:  # the newest number is damaged, and no higher one is left
            connection.execute(sql.FORGET_ALL_DEPARTED)
            drop_names_below(connection)
            [(number,)] = rows(connection, sql.INSERT_DEPARTED, values)
        part = RING_BYTES_MAX // RING_PARTS
        if number // part != (number - weight) // part:
            _forget_oldest(connection)


def _forget_oldest(connection: apsw.Connection) -> None:
    gone: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for queue, low, high in rows(connection, sql.FORGET_DEPARTED, (RING_BYTES_MAX,)):
        if isinstance(queue, int) and isinstance(low, int) and isinstance(high, int):
            gone[queue].append((low, high))
    for queue, found in gone.items():
        drop_names_between(connection, queue, found)


def note_lost(
    connection: apsw.Connection, queue: int, offsets: Sequence[int], outcome: Outcome, now: float
) -> list[Departure]:
    """Departures of messages about to be removed from their queue; pass them to ``note_departures`` afterwards."""
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


def oldest_departure(connection: apsw.Connection) -> float | None:
    """When the oldest page left."""
    found = rows(connection, sql.OLDEST_DEPARTED)
    return found[0][0] if found else None


# ---- how far tables have read ----------------------------------------------------------------------------------------

TOPICS_MAX = 1_024
"""The most topics that are kept; beyond it, those without a report for longest are forgotten."""

_topic = msgspec.json.Decoder(TopicReach)


def keep_topics(connection: apsw.Connection, *, topics: Sequence[TopicReach]) -> None:
    """Store these, replacing earlier entries of the same topics."""
    for each in topics:
        row = (each.topic, msgspec.json.encode(each), each.as_of)
        connection.execute(sql.KEEP_REACHED, (*row, of_row(*row)))
    connection.execute(sql.FORGET_REACHED, (TOPICS_MAX,))


def read_topics(connection: apsw.Connection) -> dict[str, TopicReach]:
    """The stored entries by topic; damaged ones are left out, so the hub is asked again."""
    found = {}
    for name, content, as_of, expected in rows(connection, sql.REACHED):
        if of_row(text(name), content, as_of) == expected:
            found[text(name)] = _topic.decode(content)
    return found


# ---- receipts --------------------------------------------------------------------------------------------------------

LETTERS_MAX = 16
"""How many dead letters with an id are read: its own, and those that quote it."""


def whereabouts(connection: apsw.Connection, *, id: bytes, in_flight: InFlight) -> list[Way]:
    """Where one message is or went; damaged rows are left out."""
    waiting: list[Way] = []
    latest: dict[tuple[QueueId, str], tuple[int, LeftQueue]] = {}
    for number, *fields in rows(connection, sql.NAMES_WITH, (id,)):
        found = _names(number, fields)
        if found is None:
            continue
        queue, among, checksum = found
        one = marks.find(among, id)
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
                continue  # another message, which had this offset before the store was replaced
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
    """The queue's number, the row and its checksum; None if even its types are damaged."""
    span, enqueued, ids, authors, offsets, checksum = fields
    if not isinstance(span, int) or not isinstance(enqueued, float):
        return None
    if not isinstance(ids, bytes) or not isinstance(authors, bytes) or not isinstance(offsets, bytes):
        return None
    queue, first = divmod(number, OFFSETS_MAX)
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
        if isinstance(item, Damage) or marks.id_in(item.content) != id:
            continue
        [(ahead,)] = rows(connection, sql.AHEAD, (place.queue, checkpoint, place.offset, AHEAD_MAX))
        yield Waiting(
            queue=place.name,
            topic=item.topic,
            enqueued=item.enqueued,
            expires=item.expires,
            ahead=ahead,
            in_flight=place.offset in in_flight.of(place.name),
            author=marks.author_in(item.content),
        )


def _left(connection: apsw.Connection, place: _Whereabouts) -> Iterator[tuple[int, Departure]]:
    """Pages that may contain it, with their numbers."""
    between = (place.queue, place.offset - SPAN_MAX + 1, place.offset)
    for number, *fields in rows(connection, sql.DEPARTED_AT, between):
        departure = _departure(fields)
        if departure is not None:
            yield number, departure


def _departure(fields: Sequence[Any]) -> Departure | None:
    """The departure; None if it is not what was written."""
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
            author=marks.author_in(letter.content),
        )
        for letter in letters
        if marks.id_in(letter.content) == id
    ]
