"""One node's work queue: keys, not bodies, with the semantics of client-go's work queue.

    add ─▶ dirty ──get──▶ processing ──done──▶ gone
             ▲               │ added meanwhile: once more after
             └──add_after────┘ (retries wait here)

A key is in the queue once, however often it was added; a key that is being worked on is not handed out a second time,
but delivered once more after ``done`` when it was added meanwhile.  The newest body is fetched when a key is taken,
so a queued update followed by a delete is one delete (seed: reliable message delivery, "Message Queue").
Lower priority numbers go first; within one priority first come, first served.
"""

from __future__ import annotations

import heapq


class WorkQueue:
    """Lazily filled; costs a few hundred bytes while empty.  Times are seconds of one monotonic clock."""

    __slots__ = ("_dirty", "_due", "_processing", "_ready", "_waiting")

    def __init__(self) -> None:
        self._ready: dict[int, dict[str, None]] = {}
        self._dirty: dict[str, int] = {}
        self._processing: set[str] = set()
        self._waiting: dict[str, tuple[float, int]] = {}
        self._due: list[tuple[float, str]] = []

    def __len__(self) -> int:
        """Keys that wait, for a free slot or for their time; those in flight are not counted."""
        return len(self._dirty) + len(self._waiting)

    def add(self, key: str, priority: int) -> None:
        """At once; a key that waited for its time no longer does."""
        self._waiting.pop(key, None)
        known = self._dirty.get(key)
        if known is not None and known <= priority:
            return
        if known is not None and key not in self._processing:
            self._remove_ready(key, known)
        self._dirty[key] = priority
        if key not in self._processing:
            self._ready.setdefault(priority, {})[key] = None

    def add_after(self, key: str, priority: int, due: float) -> None:
        """Not before ``due``.  A key already queued stays queued: new content does not wait for an old failure."""
        if key in self._dirty:
            return
        self._waiting[key] = (due, priority)
        heapq.heappush(self._due, (due, key))

    def get(self, now: float) -> str | None:
        """The next key to work on; it is processing until ``done``."""
        self.wake(now)
        if not self._ready:
            return None
        priority = min(self._ready)
        keys = self._ready[priority]
        key = next(iter(keys))
        del keys[key]
        if not keys:
            del self._ready[priority]
        del self._dirty[key]
        self._processing.add(key)
        return key

    def done(self, key: str) -> None:
        """Worked off, well or not; if it was added meanwhile it is ready again."""
        self._processing.discard(key)
        priority = self._dirty.get(key)
        if priority is not None:
            self._ready.setdefault(priority, {})[key] = None

    def is_waiting(self, key: str) -> bool:
        return key in self._waiting

    def due_at(self, key: str) -> float | None:
        """When a key that waits for its time may be taken."""
        waiting = self._waiting.get(key)
        return None if waiting is None else waiting[0]

    def is_queued(self, key: str) -> bool:
        return key in self._dirty

    def is_processing(self, key: str) -> bool:
        return key in self._processing

    def next_due(self) -> float | None:
        """When a waiting key becomes ready; None when none waits.  0 would mean: something is ready now."""
        while self._due and self._stale(self._due[0]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    @property
    def has_ready(self) -> bool:
        return bool(self._ready)

    def wake(self, now: float) -> None:
        """What has waited long enough is ready."""
        while self._due and self._due[0][0] <= now:
            item = heapq.heappop(self._due)
            if not self._stale(item):
                _, priority = self._waiting.pop(item[1])
                self.add(item[1], priority)

    def _stale(self, item: tuple[float, str]) -> bool:
        waiting = self._waiting.get(item[1])
        return waiting is None or waiting[0] != item[0]

    def _remove_ready(self, key: str, priority: int) -> None:
        keys = self._ready.get(priority)
        if keys is not None and keys.pop(key, 0) is None and not keys:
            del self._ready[priority]
