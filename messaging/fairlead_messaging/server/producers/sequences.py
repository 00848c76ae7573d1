"""Which messages of one producer and epoch are known: exactly those that were stored, however many gaps lie between.

A high-water mark would drop messages that come late or out of order.  A limit on gaps would bring a producer to a
standstill for no fault of its own: topics that share its stream, messages whose time ended on the way, a restored
disk.  So the intervals lie in pages, as a B-tree keeps its leaves; a publish reads and writes only the pages its
numbers fall into, and each page is forgotten by its own age.

    R … id epoch            numbers from 0 up to the next page
    R … id epoch first      numbers from ``first`` up to the next page

A page is written as intervals, or as a bit for each number where that is shorter: every second number costs two bits.
Rows from before there were pages are a first page that is split when something is added to it.
"""

from __future__ import annotations

import bisect
import re
import struct
from typing import Final

from fairlead_messaging.api.errors import Refused
from fairlead_messaging.server.log import keys
from fairlead_messaging.server.store.batch import Batch
from fairlead_messaging.server.store.ordered_kv import OrderedKV

PAGE_INTERVALS_MAX: Final = 256
"""A page with more is split: about 16 bytes each on disk, 70 in memory."""
PAGES_MAX: Final = 1024
"""Pages one request may touch.  One that is scattered wider is refused and may be sent in parts."""
FEW: Final = 16
"""Intervals that are written as such in any case, as they were before there were pages."""

_MS_BYTES = 8
_INTERVALS, _BITS = 0, 1
"""First byte of a row: how what follows the time is written.  Times have more than a byte to spare."""
_RUN = re.compile("1+")


class Intervals:
    """A set of non-negative integers kept as closed intervals, lowest first."""

    __slots__ = ("highs", "lows")

    def __init__(self, lows: list[int] | None = None, highs: list[int] | None = None) -> None:
        self.lows, self.highs = lows or [], highs or []

    def __contains__(self, number: int) -> bool:
        index = bisect.bisect_right(self.lows, number) - 1
        return index >= 0 and number <= self.highs[index]

    def __len__(self) -> int:
        """How many intervals."""
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
        """Take out what begins with the interval at ``index``."""
        upper = Intervals(self.lows[index:], self.highs[index:])
        del self.lows[index:], self.highs[index:]
        return upper


class SequencePage:
    """Numbers from ``first`` up to ``end`` (exclusive; None: whatever follows); ``updated_ms``: when it last grew."""

    __slots__ = ("end", "first", "intervals", "is_dirty", "updated_ms")

    def __init__(self, first: int, end: int | None, intervals: Intervals, updated_ms: int) -> None:
        self.first, self.end = first, end
        self.intervals = intervals
        self.updated_ms = updated_ms
        self.is_dirty = False
        """Differs from what the store has, or will have with the batch being built."""

    def holds(self, number: int) -> bool:
        """Does this number belong here, known or not?"""
        return self.first <= number and (self.end is None or number < self.end)

    def encode(self) -> bytes:
        lows, highs = self.intervals.lows, self.intervals.highs
        span = highs[-1] - lows[0] + 1 if lows else 0
        if len(lows) < FEW or span >= 128 * len(lows):  # eight bits a byte against two numbers of eight bytes
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
    """All pages of one (id, epoch); ``key`` is the first one's.  Pages are read when numbers fall into them.

    It runs ahead of the store by the batch being built; ``trim`` may be called once that is stored, and a batch that
    failed takes this object with it.
    """

    def __init__(self, kv: OrderedKV, key: bytes) -> None:
        self._kv = kv
        self._key = key
        self._pages: list[SequencePage] = []
        self._firsts: list[int] = []
        self._latest: SequencePage | None = None

    def split(self, sequences: tuple[int, ...]) -> tuple[list[int], list[int]]:
        """Indexes of the messages to store and of those already known; a number given twice is stored once.

        Raises: Refused when they are scattered over more than ``PAGES_MAX`` pages; nothing was changed then.
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
                self._keep(before)  # what was only read is as the store has it
                raise Refused(
                    f"these sequence numbers are scattered over more than {PAGES_MAX} pages; send fewer at once",
                    code="too_scattered",
                )
        return fresh, known

    def add(self, sequences: list[int], now_ms: int, batch: Batch) -> None:
        """Take these in, and write the pages that changed."""
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
        """Forget all pages but the one used last."""
        if any(page.is_dirty for page in self._pages):
            self._keep([])  # divided as they were read, and nothing was added: the store still has them whole
        else:
            self._keep([page for page in self._pages if page is self._latest])

    def _keep(self, pages: list[SequencePage]) -> None:
        self._pages, self._firsts = pages, [page.first for page in pages]
        self._latest = pages[-1] if pages else None

    def _key_of(self, page: SequencePage) -> bytes:
        return keys.producer_page(self._key, page.first)

    def _page(self, number: int) -> SequencePage:
        """The page of a number, from the store if need be."""
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
            self._pages[at].end = end  # the page that ended it was removed: its numbers were too old to be kept
            return
        page = (
            SequencePage(first, end, Intervals(), 0) if found is None else SequencePage(first, end, decode(found[1]), 0)
        )
        if found is not None:
            page.updated_ms = updated_ms(found[1])
        self._insert(page)
        while len(page.intervals) > PAGE_INTERVALS_MAX:  # from before there were pages
            page = self._cut(page, PAGE_INTERVALS_MAX)

    def _divide(self, page: SequencePage, sequence: int) -> None:
        """At its end when numbers rise, as they mostly do: full pages stay full.  Else in the middle."""
        rises = page.intervals.lows[-1] == sequence
        self._cut(page, len(page.intervals) - 1 if rises else len(page.intervals) // 2)

    def _cut(self, page: SequencePage, index: int) -> SequencePage:
        upper = SequencePage(page.intervals.lows[index], page.end, page.intervals.cut(index), page.updated_ms)
        page.end = upper.first
        page.is_dirty = upper.is_dirty = True
        self._insert(upper)
        return upper

    def _insert(self, page: SequencePage) -> None:
        at = bisect.bisect_left(self._firsts, page.first)
        self._pages.insert(at, page)
        self._firsts.insert(at, page.first)
