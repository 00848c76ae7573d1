"""What left the store and is not decided: on its way up, or in a module's hands.

Sweeping and evicting leave it alone: what may have arrived is decided by its answer, once, and counted as that.  What
was given back without a clear answer (the link ended, no answer came) is *in doubt*: it may be in the topic, and goes
again; where its time ends or room is needed before, it is both there and counted as gone, which is counted here.

Offsets by queue, in memory alone.  Read on the store's thread while the loop adds and takes away: every step is one
operation of a set.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable

from fairlead_edge.outbox.queue_id import QueueId


class InFlight:
    """One for each open store.  ``left`` is called with what leaves, before it does."""

    def __init__(self, left: Callable[[QueueId, Collection[int]], None] = lambda queue, offsets: None) -> None:
        self._left = left
        self._out: dict[QueueId, set[int]] = defaultdict(set)
        self._doubtful: dict[QueueId, set[int]] = defaultdict(set)
        self.ended_in_doubt: Counter[QueueId] = Counter()
        """Messages counted as expired or evicted that may be in their topic, since the start."""

    def take(self, queue: QueueId, offsets: Collection[int]) -> None:
        """These leave now."""
        self._left(queue, offsets)
        self._out[queue].update(offsets)

    def give_back(self, queue: QueueId, offsets: Iterable[int], *, in_doubt: bool = False) -> None:
        """These are decided, or will go again.  ``in_doubt``: they may have arrived."""
        found = list(offsets)
        self._out[queue].difference_update(found)
        if in_doubt:
            self._doubtful[queue].update(found)

    def decided(self, queue: QueueId, offsets: Iterable[int]) -> None:
        """An answer settled these, and that is on disk."""
        found = list(offsets)
        self._out[queue].difference_update(found)
        self._doubtful[queue].difference_update(found)

    def ended(self, queue: QueueId, offsets: Iterable[int]) -> None:
        """These expired or were evicted, durably."""
        doubtful = self._doubtful[queue].intersection(offsets)
        self._doubtful[queue].difference_update(doubtful)
        self.ended_in_doubt[queue] += len(doubtful)

    def of(self, queue: QueueId) -> frozenset[int]:
        """Offsets that are out now."""
        return frozenset(self._out.get(queue, ()))

    def spare(self, queue: QueueId, offsets: Iterable[int]) -> list[int]:
        """Those of them that are not out."""
        out: set[int] | frozenset[int] = self._out.get(queue, frozenset())
        return [offset for offset in offsets if offset not in out]
