"""Bytes a second of each namespace, on average: what was taken beyond it is waited for by those who come next.

A request of any size is let in as soon as nothing is owed, so none is too large to come in at all.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

NAMESPACES_MAX: Final = 10_000
"""Remembered; one that is forgotten owes nothing."""


BURST_SECONDS: Final = 1.0
"""So much may come at once."""


class ByteRate:
    """When what each namespace took will have been worth its rate; times in seconds of any steady clock."""

    def __init__(self) -> None:
        self._paid_at: OrderedDict[str, float] = OrderedDict()

    def wait(self, namespace: str, now: float) -> float:
        """Seconds until more may come; 0: now."""
        return max(0.0, self._paid_at.get(namespace, now) - BURST_SECONDS - now)

    def take(self, namespace: str, size: int, per_second: int, now: float) -> None:
        """It comes in."""
        self._paid_at[namespace] = max(self._paid_at.get(namespace, now), now) + size / per_second
        self._paid_at.move_to_end(namespace)
        if len(self._paid_at) > NAMESPACES_MAX:
            self._paid_at.popitem(last=False)
