"""Incoming changes: reassembles updates that arrive in parts, queues work for the store, and tracks acks.

    update, chunks ─Chunks─▶ whole ─ApplyQueue─▶ batches ─▶ store ─▶ AckTracker ─▶ ack, nack

The queue is first in, first out.  Consecutive writes form one batch for the store; a query is taken alone, so that its
answer includes everything that arrived before it and nothing that arrived after.

An object that is too large for one frame, or for a slow link in one piece, arrives as a header followed by its parts.
Each part is reported to the sender as progress, so that its ack timer measures silence, not size.
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
"""The limits of one batch for the store."""
QUEUE_BYTES_MAX: Final = 16 * 1024 * 1024
QUEUE_LENGTH_MAX: Final = 4096
"""Beyond these limits nothing is read from the link (``has_room``)."""
WORK_BYTES: Final = 256
"""The weight of an item besides its content."""


class QueuedChange(msgspec.Struct, frozen=True):
    """A change that the hub requested in message ``id``."""

    id: int
    write: Put | Remove
    traceparent: str | None = None

    @property
    def weight(self) -> int:
        return WORK_BYTES + (len(self.write.content) if isinstance(self.write, Put) else 0)


class Query(msgspec.Struct, frozen=True):
    """An item that is not a write; ``header`` None: the hello that opens the session."""

    header: message.Welcome | message.Compare | message.ListBuckets | None
    weight: int = WORK_BYTES


class ApplyQueue:
    """The queue of work; the caller bounds it by checking ``has_room`` before it reads more."""

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
        """The next query, or as many of the next writes as fit into one batch; None if the queue is empty."""
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
"""The total size of their parts, packed."""
RETRY_SECONDS: Final = 1.0


class Arrived(msgspec.Struct, frozen=True, kw_only=True):
    """This many parts have arrived; ``content`` is set once all have."""

    update: message.Update
    chunks: int
    content: bytes | None


class Chunks:
    """Reassembles the updates of one session.  Refusals are temporary unless the object itself is too large."""

    def __init__(self) -> None:
        self._updates: dict[int, message.Update] = {}
        self._parts: dict[int, list[bytes]] = {}
        self._bytes = 0

    def begin(self, update: message.Update) -> WriteRefused | None:
        """Expect the parts of ``update``; returns the refusal if it cannot be accepted."""
        if not 0 < update.chunks <= PARTS_MAX:
            return WriteRefused(
                code="too_large", reason=f"{update.chunks} parts, at most {PARTS_MAX} are accepted", permanent=True
            )
        if len(self._updates) >= UNFINISHED_MAX:
            return _busy(f"{UNFINISHED_MAX} updates are already arriving in parts")
        self._updates[update.id] = update
        self._parts[update.id] = []
        return None

    def add(self, chunk: message.Chunk, content: bytes) -> Arrived | WriteRefused | None:
        """Add a part; None if none is expected, because its update was refused or dropped.

        Raises ``Malformed`` if it is not the next one, because frames arrive in order within a session.
        """
        update = self._updates.get(chunk.id)
        if update is None:
            return None
        parts = self._parts[chunk.id]
        if chunk.index != len(parts):
            raise Malformed(f"chunk {chunk.index} of message {chunk.id} arrived, expected {len(parts)}")
        if sum(map(len, parts)) + len(content) > CONTENT_BYTES_MAX:
            self._forget(chunk.id)
            reason = f"{update.resource}: more than {CONTENT_BYTES_MAX} bytes"
            return WriteRefused(code="too_large", reason=reason, permanent=True)
        if self._bytes + len(content) > UNFINISHED_BYTES_MAX:
            self._forget(chunk.id)
            return _busy(f"unfinished updates already take {UNFINISHED_BYTES_MAX} bytes")
        parts.append(content)
        self._bytes += len(content)
        if len(parts) < update.chunks:
            return Arrived(update=update, chunks=len(parts), content=None)
        self._forget(chunk.id)
        return Arrived(update=update, chunks=update.chunks, content=b"".join(parts))

    def drop(self, path: str) -> list[int]:
        """Drop unfinished updates of this object; returns their message ids."""
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
    """Tracks the acks of one session: which updates and deletes are durable, refused, or still open.

        opened(id) ─▶ open ─┬─ settled([(id, outcome)]) ─▶ cumulative ack below the oldest open id, single acks above it
                            └─ refused(id)              ─▶ nack

    The number of open ids is bounded by what the hub has in flight.
    """

    def __init__(self) -> None:
        self._open: set[int] = set()

    def opened(self, id: int) -> None:
        """An update or delete has begun to arrive."""
        self._open.add(id)

    def refused(self, id: int, refused: WriteRefused) -> message.Nack:
        """The nack for a change that is not stored, permanently or temporarily."""
        self._open.discard(id)
        return message.Nack(
            parent_id=id,
            code=refused.code,
            reason=refused.reason,
            permanent=refused.permanent,
            retry_after=refused.retry_after_seconds,
        )

    def settled(self, batch: Iterable[tuple[int, Outcome]]) -> list[message.Ack | message.Nack]:
        """A batch is durable, except refused writes; returns the answers in order."""
        answers: list[message.Ack | message.Nack] = []
        acked: list[int] = []
        for id, outcome in batch:
            if isinstance(outcome, WriteRefused):
                answers.append(self.refused(id, outcome))
            else:
                self._open.discard(id)
                acked.append(id)
        # An update that is still arriving in parts was overtaken by later ids: a cumulative ack must stay below it.
        bound = min(self._open, default=None)
        below = [id for id in acked if bound is None or id < bound]
        if below:
            answers.append(message.Ack(parent_id=max(below), cumulative=True))
        answers.extend(message.Ack(parent_id=id) for id in acked if bound is not None and id > bound)
        return answers
