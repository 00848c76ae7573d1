"""The overall rate limit for all nodes: objects per second with a burst, as in client-go.

    a session wants to send ─may_send─▶ yes, counted          nothing more urgent waits, and the bucket is not empty
                                └─────▶ its node waits ─take_turns─▶ tokens set aside for it, the most urgent first

Within a priority nodes take turns, however much each has queued.  First sends, retries and deletes count alike;
answers, comparisons and messages of nodes do not count
(docs/decisions/0453-overall-rate-limit-is-fair-to-priorities.md).
"""

from __future__ import annotations

from fairlead_hub.delivery.work_queue import WorkQueue
from fairlead_hub.token_bucket import TokenBucket

TURN_MAX = 32
"""Objects a node may send per turn; then the other nodes of its priority follow."""


class SendRate:
    """The limiter for all nodes.  ``now`` is always seconds of one monotonic clock."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._bucket = TokenBucket(per_second, burst)
        self._queue = WorkQueue()
        """Waiting nodes, by the priority of the first key that each has queued."""
        self._waiting: dict[str, int] = {}
        self._turns: dict[str, int] = {}
        """Nodes whose turn it is → tokens reserved for them."""
        self.delays = 0
        """How often a node began to wait."""

    @property
    def waiting(self) -> int:
        """Number of nodes that wait for their turn."""
        return len(self._waiting)

    # ---- a session -------------------------------------------------------------------------------

    def may_send(self, node: str, priority: int, now: float) -> bool:
        """Returns True and takes one token; or False, and the node waits until ``take_turns`` returns it."""
        left = self._turns.get(node, 0)
        if left:
            self._turns[node] = left - 1
            return True
        self._turns.pop(node, None)
        first = self._queue.first_priority()
        if (first is None or priority < first) and self._bucket.has_one(now):
            self._stop_waiting(node)
            self._bucket.take(now)
            return True
        self._wait(node, priority)
        return False

    def waits(self, node: str, priority: int) -> bool:
        """Whether it already waits, with a priority at least as urgent."""
        waiting = self._waiting.get(node)
        return waiting is not None and waiting <= priority

    def unused(self) -> None:
        """Return a token: nothing had to be sent after all."""
        self._bucket.give_back()

    def rest(self, node: str) -> None:
        """The node sends nothing more now: its reserved tokens go to others."""
        for _ in range(self._turns.pop(node, 0)):
            self._bucket.give_back()

    def forget(self, node: str) -> None:
        """Its session is over."""
        self._stop_waiting(node)
        self.rest(node)

    def _wait(self, node: str, priority: int) -> None:
        before = self._waiting.get(node)
        if before is None:
            self.delays += 1
        elif priority >= before:
            return
        self._stop_waiting(node)
        self._waiting[node] = priority
        self._queue.add(node, priority)

    def _stop_waiting(self, node: str) -> None:
        before = self._waiting.pop(node, None)
        if before is not None:
            self._queue.remove(node, before)

    # ---- time ------------------------------------------------------------------------------------

    def take_turns(self, now: float) -> list[str]:
        """Nodes that may send now."""
        found: list[str] = []
        while (priority := self._queue.first_priority()) is not None and self._bucket.has_one(now):
            tokens, nodes = self._bucket.whole(now), self._queue.count(priority)
            each = min(TURN_MAX, max(1, tokens // nodes))
            for _ in range(min(tokens, nodes)):
                node = self._queue.first()
                assert node is not None
                self._stop_waiting(node)
                self._bucket.take(now, each)
                self._turns[node] = each
                found.append(node)
        return found

    def next_at(self, now: float) -> float | None:
        """Time of the next turn, or None if no node waits."""
        return self._bucket.next_at(now) if self._waiting else None
