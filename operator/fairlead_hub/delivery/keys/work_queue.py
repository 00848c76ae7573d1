"""The order in which one node's keys are sent.  It queues keys, not bodies.

    add ─▶ waits ─first─▶ sent, withheld or given up: remove

Lower priority numbers go first; within a priority, first come, first served.  Together with the states of the keys this
has the semantics of client-go's work queue: a key is queued once, however often it was added; while it is in flight it
is not queued, and it is queued again after the answer if something newer is wanted by then.  The newest body is looked
up when a key is taken, so a queued update followed by a delete is one delete (seed: reliable message delivery, "Message
Queue").
"""

from __future__ import annotations

from collections import OrderedDict


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
