"""Work taken in and not yet done: in the order it came, weighed, handed out in batches.

A run of writes becomes one batch for the store; a query is handed out alone, so that its answer is true for all
that came before it and for nothing that came after.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

from fairlead_edge.objects.metastore import Put, Remove
from fairlead_wire import message

BATCH_WRITES_MAX: Final = 256
BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""One batch to the store; what exceeds it waits for the next."""
BYTES_MAX: Final = 16 * 1024 * 1024
WORK_MAX: Final = 4096
"""Beyond these the link is read no further (``has_room``)."""
WORK_BYTES: Final = 256
"""What a piece of work weighs besides its content."""


class QueuedChange(msgspec.Struct, frozen=True):
    """A change the hub asked for in message ``id``."""

    id: int
    write: Put | Remove
    traceparent: str | None = None

    @property
    def weight(self) -> int:
        return WORK_BYTES + (len(self.write.content) if isinstance(self.write, Put) else 0)


class Query(msgspec.Struct, frozen=True):
    """A piece of work that is no write; ``header`` None: the hello that opens the session."""

    header: message.Welcome | message.Compare | message.ListBuckets | None
    weight: int = WORK_BYTES


class ApplyQueue:
    """First in, first out; bounded by the caller, who asks ``has_room`` before taking in more."""

    def __init__(self) -> None:
        self._work: deque[QueuedChange | Query] = deque()
        self._weight = 0

    @property
    def has_room(self) -> bool:
        return self._weight < BYTES_MAX and len(self._work) < WORK_MAX

    def add(self, work: QueuedChange | Query) -> None:
        self._work.append(work)
        self._weight += work.weight

    def take(self) -> list[QueuedChange] | Query | None:
        """The next query, or as many of the next writes as fit into one batch; None when nothing is left."""
        if not self._work:
            return None
        if isinstance(self._work[0], Query):
            query = self._pop()
            assert isinstance(query, Query)
            return query
        batch: list[QueuedChange] = []
        weight = 0
        while self._work and len(batch) < BATCH_WRITES_MAX and weight < BATCH_BYTES_MAX:
            following = self._work[0]
            if not isinstance(following, QueuedChange):
                break
            batch.append(following)
            weight += following.weight
            self._pop()
        return batch

    def _pop(self) -> QueuedChange | Query:
        work = self._work.popleft()
        self._weight -= work.weight
        return work
