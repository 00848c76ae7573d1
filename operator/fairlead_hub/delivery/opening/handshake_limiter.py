"""Limits how many handshakes (TLS, upgrade, hello) run at once.

    the kernel's queue ──may_begin──▶ slot ──end, or slot_seconds──▶ the next

A handshake costs milliseconds of CPU on both sides.  If two thousand nodes return at once and all handshakes start
together, each waits for all others, they time out half-way, and the work is repeated.  With slots, the handshakes that
have started finish soon, and those that wait have cost nothing yet.  A silent peer keeps its slot for ``slot_seconds``
and continues without it: so slow links do not delay the others, silent peers cannot, and the number under way is
bounded by slots × (time limit of a handshake / ``slot_seconds``).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

SLOT_SECONDS: Final = 3.0
"""A handshake that takes longer waits for its peer, not for us."""


class HandshakeLimiter:
    """Keys are chosen by the caller; ``now`` is always seconds of one monotonic clock."""

    def __init__(self, *, slots_max: int, slot_seconds: float = SLOT_SECONDS) -> None:
        self._slots_max, self._slot_seconds = slots_max, slot_seconds
        self._slots: OrderedDict[int, float] = OrderedDict()
        """Key → when it returns its slot at the latest; oldest first."""

    def may_begin(self, now: float) -> bool:
        while self._slots and self.next_slot() <= now:
            self._slots.popitem(last=False)
        return len(self._slots) < self._slots_max

    def next_slot(self) -> float:
        """When a slot becomes free at the latest; only valid after ``may_begin`` returned False."""
        return next(iter(self._slots.values()))

    def begin(self, key: int, now: float) -> None:
        self._slots[key] = now + self._slot_seconds

    def end(self, key: int) -> None:
        """It is done, failed or given up; its slot may have been returned already."""
        self._slots.pop(key, None)
