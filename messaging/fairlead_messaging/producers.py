"""Which messages of a producer are known: intervals per (id, epoch), never a high-water mark.

A high-water mark would drop messages that come late or out of order; intervals know exactly what was
stored.  Epochs are independent: an older epoch's backlog stays welcome unless a newer epoch fenced it.
"""

from __future__ import annotations

import bisect
import struct
from dataclasses import dataclass

from fairlead_messaging.errors import Conflict, Refused, Unavailable

PRODUCER_ID_BYTES_MAX = 512
SEQUENCE_NUMBER_MAX = 2**63 - 1
INTERVALS_MAX = 65_536
"""Gaps a producer may have open at once; more is refused for a while (429) rather than forgotten."""

RETENTION_SECONDS_MIN = 30 * 86_400
"""Known sequences are kept this long, or the topic's time to live, whichever is longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """Who publishes: ``sequences`` holds one number per message of the request."""

    id: str
    epoch: int
    sequences: tuple[int, ...]
    fence: bool = False


class Intervals:
    """A set of non-negative integers kept as closed intervals, lowest first."""

    __slots__ = ("_highs", "_lows")

    def __init__(self, raw: bytes = b"") -> None:
        numbers = struct.unpack(f">{len(raw) // 8}Q", raw)
        self._lows, self._highs = list(numbers[::2]), list(numbers[1::2])

    def __contains__(self, number: int) -> bool:
        index = bisect.bisect_right(self._lows, number) - 1
        return index >= 0 and number <= self._highs[index]

    def __len__(self) -> int:
        """How many intervals."""
        return len(self._lows)

    def add(self, number: int) -> None:
        index = bisect.bisect_right(self._lows, number) - 1
        if index >= 0 and number <= self._highs[index]:
            return
        joins_below = index >= 0 and self._highs[index] == number - 1
        joins_above = index + 1 < len(self._lows) and self._lows[index + 1] == number + 1
        if joins_below and joins_above:
            self._highs[index] = self._highs.pop(index + 1)
            self._lows.pop(index + 1)
        elif joins_below:
            self._highs[index] = number
        elif joins_above:
            self._lows[index + 1] = number
        else:
            self._lows.insert(index + 1, number)
            self._highs.insert(index + 1, number)

    def encode(self) -> bytes:
        flat = [number for pair in zip(self._lows, self._highs, strict=True) for number in pair]
        return struct.pack(f">{len(flat)}Q", *flat)


class Known:
    """What is known of one (id, epoch): its intervals and when they last grew (ms)."""

    __slots__ = ("intervals", "updated_ms")

    def __init__(self, raw: bytes | None = None) -> None:
        self.updated_ms = int.from_bytes(raw[:8], "big") if raw else 0
        self.intervals = Intervals(raw[8:] if raw else b"")

    def split(self, sequences: tuple[int, ...]) -> tuple[list[int], list[int]]:
        """Indexes of the messages to store and of those already known; a number given twice is stored once."""
        fresh, known, seen = [], [], set()
        for index, sequence in enumerate(sequences):
            if sequence in self.intervals or sequence in seen:
                known.append(index)
            else:
                seen.add(sequence)
                fresh.append(index)
        return fresh, known

    def check_room(self, growth: int) -> None:
        """Raises: TooManyGaps when so many gaps are open that they could no longer be remembered."""
        if len(self.intervals) + growth > INTERVALS_MAX + 1 and len(self.intervals) >= INTERVALS_MAX:
            raise TooManyGaps(
                f"this producer has {INTERVALS_MAX} gaps open; send what is missing first", retry_after_seconds=5.0
            )

    def encode(self) -> bytes:
        return self.updated_ms.to_bytes(8, "big") + self.intervals.encode()


class TooManyGaps(Unavailable):
    """A producer leaves more gaps than are remembered (429)."""

    status = 429
    code = "too_many_gaps"


class Epochs:
    """Newest and fenced epoch of one producer id."""

    __slots__ = ("fenced", "newest")

    def __init__(self, raw: bytes | None = None) -> None:
        self.newest = int.from_bytes(raw[:8], "big") if raw else 0
        self.fenced = int.from_bytes(raw[8:16], "big") if raw else 0

    def check(self, producer: Producer) -> None:
        """Raises: Conflict when the epoch was fenced, or asks for fencing and is not the newest."""
        if producer.epoch < self.fenced or (producer.fence and producer.epoch < self.newest):
            raise Conflict(
                f"epoch {producer.epoch} is older than {max(self.fenced, self.newest)}",
                code="fenced",
                newest=self.newest,
            )

    def note(self, producer: Producer) -> bool:
        """Take the epoch in; True when something changed and must be stored."""
        newest = max(self.newest, producer.epoch)
        fenced = max(self.fenced, producer.epoch) if producer.fence else self.fenced
        changed = (newest, fenced) != (self.newest, self.fenced)
        self.newest, self.fenced = newest, fenced
        return changed

    def encode(self) -> bytes:
        return self.newest.to_bytes(8, "big") + self.fenced.to_bytes(8, "big")


def make(
    *, producer_id: str, epoch: int, sequence: int | None, sequences: list[int] | None, fence: bool, messages: int
) -> Producer:
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
    return Producer(id=producer_id, epoch=epoch, sequences=numbers, fence=fence)
