"""Producers: each message of a producer is stored once, however often it is sent.

    publish ─NumberedProducer(id, epoch, sequences)→ Epochs   is this epoch still allowed (fencing)?
                                 └─→ ProducerTable ─→ KnownSequences   which numbers are stored, in pages of intervals

Numbers are known exactly, with any number of gaps, and are written in the batch that stores their messages, so both are
durable or neither is.  The table only caches what is in the store.  Epochs are independent: the backlog of an older
epoch is accepted unless a newer epoch fenced it.
"""

from __future__ import annotations

import bisect
import re
import struct
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fairlead_messaging.api.errors import Conflict, Refused
from fairlead_messaging.server.log import keys
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.store.ordered_kv import Batch, OrderedKV

PRODUCER_ID_BYTES_MAX = 512
SEQUENCE_NUMBER_MAX = 2**63 - 1
RETENTION_SECONDS_MIN = 30 * 86_400
"""Known sequences are kept this long, or the topic's time to live, whichever is longer."""
PAGE_INTERVALS_MAX: Final = 256
"""Pages with more intervals are split; an interval takes about 16 bytes on disk, 70 in memory."""
PAGES_MAX: Final = 1024
"""How many pages one request may touch; if its numbers are scattered wider it must be sent in parts."""
BITMAP_INTERVALS_MIN: Final = 16
"""A page with fewer intervals than this is never written as a bitmap."""
PRODUCERS_CACHED_MAX = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedProducer:
    """A producer; ``sequences`` has a number for each message of the request."""

    id: str
    epoch: int
    sequences: tuple[int, ...]
    fence: bool = False


class Epochs:
    """The newest and the fenced epoch of a producer id."""

    __slots__ = ("fenced", "newest")

    def __init__(self, raw: bytes | None = None) -> None:
        self.newest = int.from_bytes(raw[:8], "big") if raw else 0
        self.fenced = int.from_bytes(raw[8:16], "big") if raw else 0

    def check(self, producer: NumberedProducer) -> None:
        """Raises: Conflict if the epoch was fenced, or requests fencing and is not the newest."""
        if producer.epoch < self.fenced or (producer.fence and producer.epoch < self.newest):
            raise Conflict(
                f"epoch {producer.epoch} is older than {max(self.fenced, self.newest)}",
                code="fenced",
                newest=self.newest,
            )

    def note(self, producer: NumberedProducer) -> bool:
        """Record the epoch; True if something changed and must be stored."""
        newest = max(self.newest, producer.epoch)
        fenced = max(self.fenced, producer.epoch) if producer.fence else self.fenced
        changed = (newest, fenced) != (self.newest, self.fenced)
        self.newest, self.fenced = newest, fenced
        return changed

    def encode(self) -> bytes:
        return self.newest.to_bytes(8, "big") + self.fenced.to_bytes(8, "big")


def make(
    *, producer_id: str, epoch: int, sequence: int | None, sequences: Sequence[int] | None, fence: bool, messages: int
) -> NumberedProducer:
    """A request's producer, with exactly one sequence number per message.

    Raises: Refused saying what is wrong.
    """
    if not 1 <= len(producer_id.encode()) <= PRODUCER_ID_BYTES_MAX:
        raise Refused(f"producer.id must be 1 to {PRODUCER_ID_BYTES_MAX} bytes", code="bad_producer")
    if not 0 <= epoch <= SEQUENCE_NUMBER_MAX:
        raise Refused(f"producer.epoch must be 0 to {SEQUENCE_NUMBER_MAX}", code="bad_producer")
    if (sequence is None) == (sequences is None):
        raise Refused("producer needs either sequence (of the first message) or sequences", code="bad_producer")
    numbers = tuple(sequences) if sequences is not None else tuple(range(sequence or 0, (sequence or 0) + messages))
    if len(numbers) != messages:
        raise Refused(f"producer.sequences has {len(numbers)} numbers for {messages} messages", code="bad_producer")
    if numbers and not 0 <= min(numbers) <= max(numbers) <= SEQUENCE_NUMBER_MAX:
        raise Refused(f"sequence numbers must be 0 to {SEQUENCE_NUMBER_MAX}", code="bad_producer")
    return NumberedProducer(id=producer_id, epoch=epoch, sequences=numbers, fence=fence)


# --- Known sequences, in pages.
# A high-water mark would drop messages that arrive late or out of order. A limit on gaps would stop producers that have
# done nothing wrong: topics may share a stream, messages expire on the way, disks are restored. So the intervals are in
# pages, like the leaves of a B-tree: a publish reads and writes only the pages of its numbers, and pages expire one by
# one.
#     R … id epoch            numbers from 0 up to the next page
#     R … id epoch first      numbers from ``first`` up to the next page
# A page is written as intervals, or as a bitmap if that is shorter: for every second number it takes two bits.

_MS_BYTES = 8
_INTERVALS, _BITS = 0, 1
"""The first byte of a row: the encoding of what follows the time.  Times need no more than seven bytes."""
_RUN = re.compile("1+")


class Intervals:
    """A set of non-negative integers as closed intervals, lowest first."""

    __slots__ = ("highs", "lows")

    def __init__(self, lows: list[int] | None = None, highs: list[int] | None = None) -> None:
        self.lows, self.highs = lows or [], highs or []

    def __contains__(self, number: int) -> bool:
        index = bisect.bisect_right(self.lows, number) - 1
        return index >= 0 and number <= self.highs[index]

    def __len__(self) -> int:
        """The number of intervals."""
        return len(self.lows)

    def add(self, number: int) -> None:
        index = bisect.bisect_right(self.lows, number) - 1
        if index >= 0 and number <= self.highs[index]:
            return
        joins_below = index >= 0 and self.highs[index] == number - 1
        joins_above = index + 1 < len(self.lows) and self.lows[index + 1] == number + 1
        if joins_below and joins_above:
            self.highs[index] = self.highs.pop(index + 1)
            self.lows.pop(index + 1)
        elif joins_below:
            self.highs[index] = number
        elif joins_above:
            self.lows[index + 1] = number
        else:
            self.lows.insert(index + 1, number)
            self.highs.insert(index + 1, number)

    def cut(self, index: int) -> Intervals:
        """Remove and return the intervals from ``index`` on."""
        upper = Intervals(self.lows[index:], self.highs[index:])
        del self.lows[index:], self.highs[index:]
        return upper


class SequencePage:
    """Numbers from ``first`` up to ``end`` (exclusive; None: no end); ``updated_ms``: when it last grew."""

    __slots__ = ("end", "first", "intervals", "is_dirty", "updated_ms")

    def __init__(self, first: int, end: int | None, intervals: Intervals, updated_ms: int) -> None:
        self.first, self.end = first, end
        self.intervals = intervals
        self.updated_ms = updated_ms
        self.is_dirty = False
        """Whether it differs from the store, or from the batch being built."""

    def holds(self, number: int) -> bool:
        """Whether this number belongs to this page, known or not."""
        return self.first <= number and (self.end is None or number < self.end)

    def encode(self) -> bytes:
        lows, highs = self.intervals.lows, self.intervals.highs
        span = highs[-1] - lows[0] + 1 if lows else 0
        # One bit for each number, or 16 bytes for each interval.
        if len(lows) < BITMAP_INTERVALS_MIN or span >= 128 * len(lows):
            flat = [number for pair in zip(lows, highs, strict=True) for number in pair]
            return self.updated_ms.to_bytes(_MS_BYTES, "big") + struct.pack(f">{len(flat)}Q", *flat)
        base, bits = (lows[0], 0) if lows else (0, 0)
        for low, high in zip(lows, highs, strict=True):
            bits |= ((1 << (high - low + 1)) - 1) << (low - base)
        stamp = (_BITS << 56 | self.updated_ms).to_bytes(_MS_BYTES, "big")
        return stamp + base.to_bytes(8, "big") + bits.to_bytes((span + 7) // 8, "little")


def updated_ms(row: bytes) -> int:
    """When the page of this row last grew, in milliseconds since 1970."""
    return int.from_bytes(row[1:_MS_BYTES], "big")


def decode(row: bytes) -> Intervals:
    content = row[_MS_BYTES:]
    if row[:1] != bytes([_BITS]):
        numbers = struct.unpack(f">{len(content) // 8}Q", content)
        return Intervals(list(numbers[::2]), list(numbers[1::2]))
    base = int.from_bytes(content[:8], "big")
    text = f"{int.from_bytes(content[8:], 'little'):b}"[::-1]
    runs = [found.span() for found in _RUN.finditer(text)]
    return Intervals([base + start for start, _ in runs], [base + end - 1 for _, end in runs])


class KnownSequences:
    """All pages of one (id, epoch); ``key`` is that of the first.  Pages are read when they are needed.

    It is ahead of the store by the batch being built; ``trim`` may be called once that is stored, and if the batch
    fails this object must be discarded.
    """

    def __init__(self, kv: OrderedKV, key: bytes) -> None:
        self._kv = kv
        self._key = key
        self._pages: list[SequencePage] = []
        self._firsts: list[int] = []
        self._latest: SequencePage | None = None

    def split(self, sequences: tuple[int, ...]) -> tuple[list[int], list[int]]:
        """Indexes of the messages to store and of those already known; a number that occurs twice is stored once.

        Raises: Refused if they are scattered over more than ``PAGES_MAX`` pages; then nothing was changed.
        """
        fresh, known, seen = [], [], set()
        before = self._pages.copy()
        for index, sequence in enumerate(sequences):
            if sequence in seen or sequence in self._page(sequence).intervals:
                known.append(index)
            else:
                seen.add(sequence)
                fresh.append(index)
            if len(self._pages) > len(before) + PAGES_MAX:
                self._keep(before)  # pages that were only read equal the store
                raise Refused(
                    f"these sequence numbers are scattered over more than {PAGES_MAX} pages; send fewer at once",
                    code="too_scattered",
                )
        return fresh, known

    def add(self, sequences: list[int], now_ms: int, batch: Batch) -> None:
        """Add these sequences, and write the pages that changed."""
        for sequence in sequences:
            page = self._page(sequence)
            page.intervals.add(sequence)
            page.updated_ms, page.is_dirty = max(page.updated_ms, now_ms), True
            if len(page.intervals) > PAGE_INTERVALS_MAX:
                self._divide(page, sequence)
        for page in self._pages:
            if page.is_dirty:
                batch.put(self._key_of(page), page.encode())
                page.is_dirty = False

    def trim(self) -> None:
        """Drop all pages except the one that was used last."""
        self._keep([page for page in self._pages if page is self._latest])

    def _keep(self, pages: list[SequencePage]) -> None:
        self._pages, self._firsts = pages, [page.first for page in pages]
        self._latest = pages[-1] if pages else None

    def _key_of(self, page: SequencePage) -> bytes:
        return keys.producer_page(self._key, page.first)

    def _page(self, number: int) -> SequencePage:
        """The page of a number, from the store if necessary."""
        latest = self._latest
        if latest is not None and latest.holds(number):
            return latest
        index = bisect.bisect_right(self._firsts, number) - 1
        if index < 0 or not self._pages[index].holds(number):
            self._read(number)
            index = bisect.bisect_right(self._firsts, number) - 1
        self._latest = self._pages[index]
        return self._latest

    def _read(self, number: int) -> None:
        above = keys.producer_page(self._key, number + 1)
        with self._kv.snapshot() as snapshot:
            found = snapshot.last_below(self._key, above)
            following = next(iter(snapshot.scan(above, keys.above(self._key))), None)
        first = 0 if found is None else keys.first_of_page(self._key, found[0])
        end = None if following is None else keys.first_of_page(self._key, following[0])
        at = bisect.bisect_left(self._firsts, first)
        if at < len(self._firsts) and self._firsts[at] == first:
            self._pages[at].end = end  # the next page was removed because its numbers were too old
            return
        page = (
            SequencePage(first, end, Intervals(), 0) if found is None else SequencePage(first, end, decode(found[1]), 0)
        )
        if found is not None:
            page.updated_ms = updated_ms(found[1])
        self._insert(page)

    def _divide(self, page: SequencePage, sequence: int) -> None:
        """Split at the end if numbers rise, as they usually do, so that full pages stay full; else in the middle."""
        rises = page.intervals.lows[-1] == sequence
        index = len(page.intervals) - 1 if rises else len(page.intervals) // 2
        upper = SequencePage(page.intervals.lows[index], page.end, page.intervals.cut(index), page.updated_ms)
        page.end = upper.first
        page.is_dirty = upper.is_dirty = True
        self._insert(upper)

    def _insert(self, page: SequencePage) -> None:
        at = bisect.bisect_left(self._firsts, page.first)
        self._pages.insert(at, page)
        self._firsts.insert(at, page.first)


class ProducerTable:
    """The cached producers of one topic; ahead of the store by the batch being built, and discarded if that batch
    fails."""

    def __init__(self, kv: OrderedKV) -> None:
        self._kv = kv
        self._known: OrderedDict[tuple[str, int], KnownSequences] = OrderedDict()
        self._asked: list[KnownSequences] = []
        """The producers used since the last ``trim``."""
        self._epochs: OrderedDict[str, Epochs] = OrderedDict()

    def clear(self) -> None:
        """Drop all producers: the topic has a new generation."""
        self._known.clear()
        self._epochs.clear()

    def known(self, topic: TopicGeneration, producer_id: str, epoch: int) -> KnownSequences:
        found = self._known.get((producer_id, epoch))
        if found is None:
            found = self._known[producer_id, epoch] = KnownSequences(self._kv, keys.producer(topic, producer_id, epoch))
        else:
            self._known.move_to_end((producer_id, epoch))
        self._asked.append(found)
        return found

    def epochs(self, topic: TopicGeneration, producer_id: str) -> Epochs:
        found = self._epochs.get(producer_id)
        if found is None:
            found = self._epochs[producer_id] = Epochs(self._kv.get(keys.fence(topic, producer_id)))
        else:
            self._epochs.move_to_end(producer_id)
        return found

    def trim(self) -> None:
        """Drop cached pages; only between batches, when they are in the store."""
        for known in self._asked:
            known.trim()
        self._asked.clear()
        while len(self._known) > PRODUCERS_CACHED_MAX:
            self._known.popitem(last=False)
        while len(self._epochs) > PRODUCERS_CACHED_MAX:
            self._epochs.popitem(last=False)
