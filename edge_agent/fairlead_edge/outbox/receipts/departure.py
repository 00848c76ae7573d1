"""Messages that left the outbox: which they were, their outcome, and their positions in the topic.

One departure is a page: messages of one queue, topic, epoch and answer, by offset; their ids are kept from acceptance
on (``marks.Names``).  A batch has consecutive positions if the hub says so; otherwise only the position up to which all
of them are is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

import msgspec

from fairlead_edge.outbox.outbox import Item
from fairlead_edge.outbox.receipts.marks import ID_BYTES, SPAN_MAX
from fairlead_wire import message

Outcome = Literal["in_topic", "expired", "evicted"]
PAGE_BYTES: Final = 220
"""About how many bytes a page takes on disk."""
NAMES_BYTES: Final = 36
"""About how many bytes a row of names takes in addition to its ids."""
RING_BYTES_MAX: Final = 8 * 1024 * 1024
"""Beyond this size, the oldest pages are dropped with the names of their messages: it holds 30,000 messages that left
one by one, or 490,000 in full batches."""
POSITION_CHARS: Final = 20
"""Hex digits of a message id that are its position; the rest says where its payload is."""


class Departure(msgspec.Struct, frozen=True, kw_only=True):
    """``left_at`` is on the store's clock.  Without ``newest``, the positions are unknown.

    ``among`` has one bit for each offset from ``low`` to ``high``, the lowest first; empty means all of them.
    """

    outcome: Outcome
    left_at: float
    topic: str = ""
    service: str = ""
    generation: int = 0
    first: str = ""
    newest: str = ""
    epoch: int
    low: int
    high: int
    among: bytes = b""

    @property
    def count(self) -> int:
        """The number of messages."""
        return int.from_bytes(self.among, "little").bit_count() if self.among else self.high - self.low + 1

    @property
    def weight(self) -> int:
        """The bytes of the ring that it takes, with the ids of its messages."""
        return PAGE_BYTES + len(self.among) + ID_BYTES * self.count


class DepartedMessage(msgspec.Struct, frozen=True):
    """One message of a departure."""

    author: bytes
    enqueued: float
    position: str
    is_exact: bool
    """If false, it is at ``position`` or before."""


def departures(items: Sequence[Item], answer: message.Ack | message.Nack, *, now: float) -> list[Departure]:
    """The departures of those messages of a batch that are stored, by the answer; ``items`` are in order of offsets."""
    if isinstance(answer, message.Ack):
        deferred = answer.deferred_by_index([item.topic for item in items]) if answer.deferred else {}
        left = {*deferred, *(each.index for each in answer.refused)}
    else:
        left = set(range(len(items))).difference(answer.stored)
    places = {
        (items[each.index].topic, items[each.index].epoch): each for each in answer.positions if each.index < len(items)
    }
    found: list[Departure] = []
    for (topic, epoch), offsets in _groups(items, left).items():
        place = places.get((topic, epoch))
        is_exact = place is not None and _is_possible(place, len(offsets))
        done = 0
        for page in pages(offsets):
            found.append(
                Departure(
                    outcome="in_topic",
                    left_at=now,
                    topic=topic,
                    service=place.service if place else "",
                    generation=place.generation if place else 0,
                    first=nth(place.first, done) if place and is_exact else "",
                    newest=place.newest if place else "",
                    epoch=epoch,
                    low=page[0],
                    high=page[-1],
                    among=among(page),
                )
            )
            done += len(page)
    return found


def _groups(items: Sequence[Item], left: set[int]) -> dict[tuple[str, int], Sequence[int]]:
    """Offsets by topic and epoch, except for the items with an index in ``left``."""
    if not left and items:
        topic, epoch = items[0].topic, items[0].epoch
        count = len(items)
        if [item.topic for item in items].count(topic) == count == [item.epoch for item in items].count(epoch):
            return {(topic, epoch): [item.offset for item in items]}  # nearly every batch; three times as fast
    groups: dict[tuple[str, int], list[int]] = {}
    for index, item in enumerate(items):
        if index not in left:
            groups.setdefault((item.topic, item.epoch), []).append(item.offset)
    return {**groups}


def pages(offsets: Sequence[int]) -> Iterator[Sequence[int]]:
    """Splits ascending offsets into parts that span at most ``SPAN_MAX``."""
    begin = 0
    while begin < len(offsets):
        end = len(offsets)
        if offsets[-1] - offsets[begin] >= SPAN_MAX:
            end = next(index for index in range(begin, end) if offsets[index] - offsets[begin] >= SPAN_MAX)
        yield offsets[begin:end]
        begin = end


def among(offsets: Sequence[int]) -> bytes:
    """``Departure.among`` for these ascending offsets."""
    low, span = offsets[0], offsets[-1] - offsets[0] + 1
    if span == len(offsets):
        return b""
    bits = bytearray((span + 7) // 8)
    for offset in offsets:
        bits[(offset - low) >> 3] |= 1 << ((offset - low) & 7)
    return bytes(bits)


def bits(low: int, high: int, among: bytes) -> int:
    """The offsets of a page as a number: bit 0 is its lowest."""
    return int.from_bytes(among, "little") if among else (1 << (high - low + 1)) - 1


def index_of(departure: Departure, offset: int) -> int | None:
    """The index in the page of the message at this offset; None if it is not in the page."""
    if not departure.low <= offset <= departure.high:
        return None
    if not departure.among:
        return offset - departure.low
    all_of_it, place = bits(departure.low, departure.high, departure.among), offset - departure.low
    if not all_of_it >> place & 1:
        return None
    return (all_of_it & ((1 << place) - 1)).bit_count()


def entry(departure: Departure, index: int, *, author: bytes, enqueued: float) -> DepartedMessage:
    """The message at this index of the page."""
    position = nth(departure.first, index) if departure.first else departure.newest
    return DepartedMessage(author, enqueued, position, bool(departure.first))


def nth(first: str, index: int) -> str:
    """The position ``count`` after ``first``: a millisecond holds 65,536 positions."""
    number = int(first[:POSITION_CHARS], 16) + index
    return f"{number:0{POSITION_CHARS}x}"[-POSITION_CHARS:] + "0" * POSITION_CHARS


def is_upto(position: str, reached: str) -> bool:
    """Whether a reader that has read up to ``reached`` has the message at ``position``."""
    return bool(position) and position[:POSITION_CHARS] <= reached[:POSITION_CHARS]


def _is_possible(place: message.TopicPosition, count: int) -> bool:
    """Whether ``count`` positions from the first do not go beyond the newest; a faulty hub is not believed."""
    last = nth(place.first, count - 1) if place.first else ""
    return is_upto(place.first, last) and is_upto(last, place.newest)  # if they wrap, the last is before the first
