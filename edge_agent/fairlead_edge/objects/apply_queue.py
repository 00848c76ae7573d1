"""Changes on their way in: updates that arrive in parts, the queue of work for the store, and acks once it is done.

    update, chunks ─Chunks─▶ whole ─ApplyQueue─▶ batches ─▶ store ─▶ AckTracker ─▶ ack, nack

The queue is in the order it came, weighed, and handed out in batches.  A run of writes becomes one batch for the store;
a query is handed out alone, so that its answer is true for all that came before it and for nothing that came after.

An object larger than a frame should be, or than a slow link should carry in one piece, comes as one header and then its
parts.  Each part is reported to the sender as progress, so that its ack timer measures silence, not size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

from fairlead_edge.objects.metastore import Outcome, Put, Remove, WriteRefused
from fairlead_wire import message
from fairlead_wire.errors import Malformed
from fairlead_wire.link.codec import CONTENT_BYTES_MAX

BATCH_WRITES_MAX: Final = 256
BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""One batch to the store; what exceeds it waits for the next."""
QUEUE_BYTES_MAX: Final = 16 * 1024 * 1024
QUEUE_LENGTH_MAX: Final = 4096
"""Beyond these the link is read no further (``has_room``)."""
WORK_BYTES: Final = 256
"""Weight of a piece of work besides its content."""


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
        return self._weight < QUEUE_BYTES_MAX and len(self._work) < QUEUE_LENGTH_MAX

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


UNFINISHED_MAX: Final = 8
"""Updates that may arrive in parts at the same time."""
PARTS_MAX: Final = 1024
UNFINISHED_BYTES_MAX: Final = 2 * CONTENT_BYTES_MAX
"""Parts held of all of them together, packed."""
RETRY_SECONDS: Final = 1.0


class Arrived(msgspec.Struct, frozen=True, kw_only=True):
    """This many parts have arrived; ``content`` is set once all have."""

    update: message.Update
    chunks: int
    content: bytes | None


class Chunks:
    """The parts received in one session.  Refusals are temporary unless the object itself is too large."""

    def __init__(self) -> None:
        self._updates: dict[int, message.Update] = {}
        self._parts: dict[int, list[bytes]] = {}
        self._bytes = 0

    def begin(self, update: message.Update) -> WriteRefused | None:
        """Expect the parts of ``update``; the answer to the sender when they are not wanted."""
        if not 0 < update.chunks <= PARTS_MAX:
            return WriteRefused(
                code="too_large", reason=f"{update.chunks} parts, at most {PARTS_MAX} are taken", permanent=True
            )
        if len(self._updates) >= UNFINISHED_MAX:
            return _busy(f"{UNFINISHED_MAX} updates are arriving in parts already")
        self._updates[update.id] = update
        self._parts[update.id] = []
        return None

    def add(self, chunk: message.Chunk, content: bytes) -> Arrived | WriteRefused | None:
        """One part came; None when none is expected (its update was refused or dropped).

        Raises ``Malformed`` when it is not the next one: within a session frames arrive in order.
        """
        update = self._updates.get(chunk.id)
        if update is None:
            return None
        parts = self._parts[chunk.id]
        if chunk.index != len(parts):
            raise Malformed(f"chunk {chunk.index} of message {chunk.id} came, {len(parts)} was next")
        if sum(map(len, parts)) + len(content) > CONTENT_BYTES_MAX:
            self._forget(chunk.id)
            reason = f"{update.resource}: more than {CONTENT_BYTES_MAX} bytes"
            return WriteRefused(code="too_large", reason=reason, permanent=True)
        if self._bytes + len(content) > UNFINISHED_BYTES_MAX:
            self._forget(chunk.id)
            return _busy(f"{UNFINISHED_BYTES_MAX} bytes of unfinished updates are held already")
        parts.append(content)
        self._bytes += len(content)
        if len(parts) < update.chunks:
            return Arrived(update=update, chunks=len(parts), content=None)
        self._forget(chunk.id)
        return Arrived(update=update, chunks=update.chunks, content=b"".join(parts))

    def drop(self, path: str) -> list[int]:
        """Forget unfinished updates of this object; returns their message ids."""
        dropped = [id for id, update in self._updates.items() if update.resource == path]
        for id in dropped:
            self._forget(id)
        return dropped

    def _forget(self, id: int) -> None:
        del self._updates[id]
        self._bytes -= sum(map(len, self._parts.pop(id)))


def _busy(reason: str) -> WriteRefused:
    return WriteRefused(code="busy", reason=reason, permanent=False, retry_after_seconds=RETRY_SECONDS)


class AckTracker:
    """Acks of one session: which updates and deletes are durable, which are refused, which are still open.

        opened(id) ─▶ open ─┬─ settled([(id, outcome)]) ─▶ cumulative ack below the oldest open id, single acks above it
                            └─ refused(id)              ─▶ nack

    There are as many open ids as the hub has in flight.
    """

    def __init__(self) -> None:
        self._open: set[int] = set()

    def opened(self, id: int) -> None:
        """An update or delete has begun to arrive."""
        self._open.add(id)

    def refused(self, id: int, refused: WriteRefused) -> message.Nack:
        """The change is not stored, for good or for now."""
        self._open.discard(id)
        return message.Nack(
            parent_id=id,
            code=refused.code,
            reason=refused.reason,
            permanent=refused.permanent,
            retry_after=refused.retry_after_seconds,
        )

    def settled(self, batch: Iterable[tuple[int, Outcome]]) -> list[message.Ack | message.Nack]:
        """A batch is durable, except what was refused: what to answer, in this order."""
        answers: list[message.Ack | message.Nack] = []
        acked: list[int] = []
        for id, outcome in batch:
            if isinstance(outcome, WriteRefused):
                answers.append(self.refused(id, outcome))
            else:
                self._open.discard(id)
                acked.append(id)
        # An update that still arrives in parts has a lower id than what overtook it: a cumulative ack stays below.
        bound = min(self._open, default=None)
        below = [id for id in acked if bound is None or id < bound]
        if below:
            answers.append(message.Ack(parent_id=max(below), cumulative=True))
        answers.extend(message.Ack(parent_id=id) for id in acked if bound is not None and id > bound)
        return answers
