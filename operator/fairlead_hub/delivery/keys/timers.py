"""Due times: of keys (a retry, the next attempt for a parked key) or of sessions."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

SLACK = 16
"""Cancelled entries are dropped once there are this many more of them than of active ones."""


Key = TypeVar("Key", int, str)


class Timers(Generic[Key]):
    """One time per key, in seconds of one monotonic clock."""

    __slots__ = ("_due", "_heap")

    def __init__(self) -> None:
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []

    def __len__(self) -> int:
        return len(self._due)

    def set(self, key: Key, due: float) -> None:
        self._due[key] = due
        heapq.heappush(self._heap, (due, key))
        if len(self._heap) > 2 * len(self._due) + SLACK:
            self._heap = [(at, each) for each, at in self._due.items()]
            heapq.heapify(self._heap)

    def at(self, key: Key) -> float | None:
        """The time of this key, or None."""
        return self._due.get(key)

    def cancel(self, key: Key) -> None:
        self._due.pop(key, None)

    def due(self, now: float) -> list[Key]:
        """Remove and return the keys that are due, earliest first."""
        found: list[Key] = []
        while self._heap and self._heap[0][0] <= now:
            at, key = heapq.heappop(self._heap)
            if self._due.get(key) == at:
                del self._due[key]
                found.append(key)
        return found

    def next(self) -> float | None:
        """The earliest time, or None."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
