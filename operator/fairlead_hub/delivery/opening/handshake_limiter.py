"""When the next handshake (TLS, upgrade, hello) may begin.

    the kernel's queue ──may_begin──▶ slot ──end, or slot_seconds──▶ the next

A handshake costs milliseconds of CPU on both sides.  If two thousand nodes that return at once all began together, each
would wait for all, they would run into their time limits half-way, and the work would be done again.  With slots, those
who began are soon done, and those who wait have cost nothing yet.  A peer that falls silent keeps its slot for
``slot_seconds`` only and goes on without: so slow links do not hold up the others, silent peers cannot, and never more
are under way than slots times (time limit of a handshake / ``slot_seconds``).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

SLOT_SECONDS: Final = 3.0
"""A handshake that takes longer waits for its peer and not for us."""


class HandshakeLimiter:
    """Keys are the caller's; ``now`` is always seconds of one monotonic clock."""

    def __init__(self, *, slots_max: int, slot_seconds: float = SLOT_SECONDS) -> None:
        self._slots_max, self._slot_seconds = slots_max, slot_seconds
        self._slots: OrderedDict[int, float] = OrderedDict()
        """Key → when it gives its slot back at the latest; oldest first."""

    def may_begin(self, now: float) -> bool:
        while self._slots and self.next_slot() <= now:
            self._slots.popitem(last=False)
        return len(self._slots) < self._slots_max

    def next_slot(self) -> float:
        """When a slot becomes free at the latest; ask only after ``may_begin`` said no."""
        return next(iter(self._slots.values()))

    def begin(self, key: int, now: float) -> None:
        self._slots[key] = now + self._slot_seconds

    def end(self, key: int) -> None:
        """Done, failed or given up; the slot may have been given back before."""
        self._slots.pop(key, None)
