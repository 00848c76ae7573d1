"""Messages that left the outbox: which they were, their outcome, and where they stand in their topic.

One departure is a page: messages of one queue, topic, epoch and answer, by their offsets; what they are called is kept
since they were accepted (``named``).  Those of a batch stand in consecutive positions where the hub says so; else it is
known up to which position they all are.
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
"""What a page takes on disk, about."""
NAMES_BYTES: Final = 36
"""What a row of names takes beside its ids, about."""
RING_BYTES_MAX: Final = 8 * 1024 * 1024
"""Older pages are dropped, with the names of their messages: it holds 30,000 messages that left one by one, or 490,000
in full batches."""
POSITION_CHARS: Final = 20
"""Hex digits of a message id that say where it stands; the rest says where its payload lies."""


class Departure(msgspec.Struct, frozen=True, kw_only=True):
    """``left_at`` is of the store's clock.  Without ``newest`` it is not known where they stand.

    ``among``: which offsets from ``low`` to ``high`` they are, a bit each, the lowest first; empty: all.
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
        """How many messages."""
        return int.from_bytes(self.among, "little").bit_count() if self.among else self.high - self.low + 1

    @property
    def weight(self) -> int:
        """Bytes of the ring it takes, with the ids of its messages."""
        return PAGE_BYTES + len(self.among) + ID_BYTES * self.count


class DepartedMessage(msgspec.Struct, frozen=True):
    """One message of a departure."""

    author: bytes
    enqueued: float
    position: str
    is_exact: bool
    """False: it stands at ``position`` or before."""


def departures(items: Sequence[Item], answer: message.Ack | message.Nack, *, now: float) -> list[Departure]:
    """Of a batch what the answer says is stored; ``items`` are in the order of their offsets."""
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
    """Offsets by topic and epoch, without those at the places ``left`` out."""
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
    """Offsets that ascend, in parts that span at most ``SPAN_MAX``."""
    begin = 0
    while begin < len(offsets):
        end = len(offsets)
        if offsets[-1] - offsets[begin] >= SPAN_MAX:
            end = next(index for index in range(begin, end) if offsets[index] - offsets[begin] >= SPAN_MAX)
        yield offsets[begin:end]
        begin = end


def among(offsets: Sequence[int]) -> bytes:
    """``Departure.among`` of these, which ascend."""
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
    """The index in the page of the message at this offset; None: it is not in the page."""
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
    """A first position from which so many do not go beyond the newest; what a mistaken hub says is not believed."""
    last = nth(place.first, count - 1) if place.first else ""
    return is_upto(place.first, last) and is_upto(last, place.newest)  # the last is before the first where they wrap
