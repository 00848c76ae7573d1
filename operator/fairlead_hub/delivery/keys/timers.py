"""When keys are due: a retry, the next try of what is parked; or when sessions are."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

SLACK = 16
"""Entries that were called off may stay until there are this many more of them than of others."""


Key = TypeVar("Key", int, str)


class Timers(Generic[Key]):
    """One time for each key; seconds of one monotonic clock."""

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
        """The time of this key; None: it has none."""
        return self._due.get(key)

    def cancel(self, key: Key) -> None:
        self._due.pop(key, None)

    def due(self, now: float) -> list[Key]:
        """Take the keys whose time has come, earliest first."""
        found: list[Key] = []
        while self._heap and self._heap[0][0] <= now:
            at, key = heapq.heappop(self._heap)
            if self._due.get(key) == at:
                del self._due[key]
                found.append(key)
        return found

    def next(self) -> float | None:
        """The earliest time; None: nothing waits."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
