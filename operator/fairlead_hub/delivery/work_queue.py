"""Which key of a node is sent next (``WorkQueue``), and when a key is looked at again (``Timers``).

    add ─▶ waits ─first─▶ sent, withheld or given up: remove
    set ─▶ waits ──due──▶ a retry, the next attempt for a parked key

The queue holds keys, not bodies.  Lower priority numbers go first; within a priority, first come, first served.
Together with the states of the keys this has the semantics of client-go's work queue: a key is queued once, however
often it was added; while it is in flight it is not queued, and it is queued again after the answer if something newer
is wanted by then.  The newest body is looked up when a key is taken, so a queued update followed by a delete is one
delete (seed: reliable message delivery, "Message Queue").

Neither is only for keys: nodes queue for the overall rate limit (``send_rate``), and sessions have timers.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from typing import Generic, TypeVar

SLACK = 16
"""Cancelled entries are dropped once there are this many more of them than of active ones."""
Key = TypeVar("Key", int, str)


class WorkQueue:
    """Filled lazily; costs a few hundred bytes while empty."""

    __slots__ = ("_ready",)

    def __init__(self) -> None:
        self._ready: dict[int, OrderedDict[str, None]] = {}
        """Keys by their class: finding the first key of a plain dict is slow after thousands of deletions at its
        front."""

    def __bool__(self) -> bool:
        return bool(self._ready)

    def __len__(self) -> int:
        return sum(map(len, self._ready.values()))

    def add(self, key: str, priority: int) -> None:
        """Append the key to its priority; a key that is already queued keeps its place."""
        keys = self._ready.get(priority)
        if keys is None:
            keys = self._ready[priority] = OrderedDict()
        keys[key] = None

    def first(self) -> str | None:
        """The next key to work on; it stays queued until it is removed."""
        return next(iter(self._ready[min(self._ready)])) if self._ready else None

    def first_priority(self) -> int | None:
        """The most urgent priority, or None if the queue is empty."""
        return min(self._ready) if self._ready else None

    def count(self, priority: int) -> int:
        """Number of keys with this priority."""
        return len(self._ready.get(priority, ()))

    def counts(self) -> dict[int, int]:
        """Number of keys by priority."""
        return {priority: len(keys) for priority, keys in self._ready.items()}

    def remove(self, key: str, priority: int) -> None:
        """``priority`` is the one the key was added with."""
        keys = self._ready[priority]
        del keys[key]
        if not keys:
            del self._ready[priority]


class Timers(Generic[Key]):
    """When keys or sessions are due: one time each, in seconds of one monotonic clock."""

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
