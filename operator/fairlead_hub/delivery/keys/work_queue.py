"""The order in which one node's keys are sent: keys, not bodies.

    add ─▶ waits ─first─▶ sent, withheld or given up: remove

Lower priority numbers go first; within one priority first come, first served.  With the states of the keys this has the
semantics of client-go's work queue: a key is in it once, however often it was added; while a key is in flight it is
not in it, and comes once more after the answer when something newer is wanted by then.  The newest body is looked up
when a key is taken, so a queued update followed by a delete is one delete (seed: reliable message delivery, "Message
Queue").
"""

from __future__ import annotations

from collections import OrderedDict


class WorkQueue:
    """Lazily filled; costs a few hundred bytes while empty."""

    __slots__ = ("_ready",)

    def __init__(self) -> None:
        self._ready: dict[int, OrderedDict[str, None]] = {}
        """Ordered by their class: the first of a plain dict that lost its first thousands is found slowly."""

    def __bool__(self) -> bool:
        return bool(self._ready)

    def __len__(self) -> int:
        return sum(map(len, self._ready.values()))

    def add(self, key: str, priority: int) -> None:
        """At the end of its priority; where it is already, it keeps its place."""
        keys = self._ready.get(priority)
        if keys is None:
            keys = self._ready[priority] = OrderedDict()
        keys[key] = None

    def first(self) -> str | None:
        """The next key to work on; it stays until it is removed."""
        return next(iter(self._ready[min(self._ready)])) if self._ready else None

    def first_priority(self) -> int | None:
        """The most urgent one; None: there is nothing."""
        return min(self._ready) if self._ready else None

    def count(self, priority: int) -> int:
        """How many have this priority."""
        return len(self._ready.get(priority, ()))

    def counts(self) -> dict[int, int]:
        """How many there are of each priority."""
        return {priority: len(keys) for priority, keys in self._ready.items()}

    def remove(self, key: str, priority: int) -> None:
        """``priority`` is the one it was added with."""
        keys = self._ready[priority]
        del keys[key]
        if not keys:
            del self._ready[priority]
