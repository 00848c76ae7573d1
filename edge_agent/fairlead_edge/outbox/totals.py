"""The outbox's totals, written to a file beside it after each commit; they show whether the store has lost commits.

They are not flushed: they survive a killed process, but a power cut may leave older ones.  So they are believed only if
they are as new as the store, or *ahead* of it: then the store has lost rows or commits.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final

import msgspec

from fairlead_edge.outbox.age import Stamp
from fairlead_edge.outbox.queues import NOTHING_DONE

SLOT_BYTES: Final = 128 * 1024
"""The space for one copy; two are written in turn, so that one is complete whenever the process ends."""
SEAL_BYTES_MAX: Final = 128
"""What encryption adds to a slot."""
COUNT_MAX: Final = 1 << 53
"""A larger count is damage; sums of a few smaller counts are exact in any number type."""
PLACE_MAX: Final = (1 << 31) - 1
"""The largest priority that frames of the link can carry."""


class QueueTotals(msgspec.Struct, frozen=True, kw_only=True):
    """One queue's row; ``topic`` is the one that was last written to."""

    id: int
    endpoint: str
    priority: int
    next_offset: int
    checkpoint: int
    accepted: int
    sent: int
    expired: int
    evicted: int
    damaged: int
    topic: str = ""

    @property
    def is_possible(self) -> bool:
        """Whether any history of a queue could lead to these numbers."""
        counts = (self.next_offset, self.accepted, self.sent, self.expired, self.evicted, self.damaged)
        return (
            all(0 <= count <= COUNT_MAX for count in counts)
            and NOTHING_DONE <= self.checkpoint < self.next_offset
            and 0 <= self.priority <= PLACE_MAX
            and self.waiting >= 0
        )

    @property
    def waiting(self) -> int:
        """How many messages and dead letters the store should hold."""
        return self.accepted - self.sent - self.expired - self.evicted - self.damaged


class OutboxTotals(msgspec.Struct, frozen=True):
    """The totals after ``commits`` commits in the life of the file.

    ``clock`` is the last stamp of the store's clock, ``node`` the owner of the messages.
    """

    commits: int
    queues: tuple[QueueTotals, ...]
    clock: Stamp | None = None
    node: str = ""

    @property
    def are_possible(self) -> bool:
        return 0 <= self.commits <= COUNT_MAX and all(queue.is_possible for queue in self.queues)

    def of(self, id: int) -> QueueTotals | None:
        return next((queue for queue in self.queues if queue.id == id), None)


_decoder = msgspec.json.Decoder(OutboxTotals)


def encode(totals: OutboxTotals) -> bytes:
    """The content of one slot; empty if it would not fit (thousands of queues), so that no totals are kept."""
    content = msgspec.json.encode(totals)
    slot = b"%08x %d %b\n" % (zlib.crc32(content), len(content), content)
    return slot if len(slot) <= SLOT_BYTES - SEAL_BYTES_MAX else b""


def decode(content: bytes) -> OutboxTotals | None:
    """The newest totals that are intact, from the content of both slots."""
    return newest((content[:SLOT_BYTES], content[SLOT_BYTES : 2 * SLOT_BYTES]))


def newest(slots: Iterable[bytes]) -> OutboxTotals | None:
    """The newest totals that are intact."""
    found = map(_read, slots)
    return max((each for each in found if each is not None), key=lambda each: each.commits, default=None)


def _read(slot: bytes) -> OutboxTotals | None:
    try:
        crc, size, rest = slot.split(b" ", 2)
        content = rest[: int(size)]
        read = _decoder.decode(content) if int(crc, 16) == zlib.crc32(content) else None
        return read if read is not None and read.are_possible else None
    except (ValueError, RecursionError):
        return None
