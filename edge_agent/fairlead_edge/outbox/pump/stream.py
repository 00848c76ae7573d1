"""One stream of the pump: its state, its position in the log, its unanswered batches, and what it waits for.

A queue has one stream, and one more for each topic that the hub deferred: that one sends the messages of its topic,
with its own cursor, until it has caught up with the queue's.  Only the methods here change a stream; the pump calls
them and reads properties.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from fairlead_edge.outbox.delivery import StateTable
from fairlead_edge.outbox.outbox import Item, Refusal
from fairlead_edge.outbox.queues import Checkpointer, QueueId, rank
from fairlead_wire.delivery_policy import DeliveryPolicy, Uniform, next_delay
from fairlead_wire.message import Nack

BATCH_MESSAGES_MAX: Final = 256
BATCH_BYTES_MAX: Final = 256 * 1024
"""A batch ends with the message that reaches this size."""
PROBE_MESSAGES: Final = 16
"""Size of the batch that probes whether a failure is over; each success doubles it, up to a full batch."""
RETRY_AFTER_SECONDS_MIN: Final = 0.1
RETRY_AFTER_SECONDS_MAX: Final = 3600.0
"""The range of delays that a hub may ask for; other values are ignored."""
REVIVE_SECONDS: Final = 30.0
"""How long a priority whose retries are used up sends nothing and moves its messages to the dead letters."""
BEHIND_SECONDS: Final = 10.0
"""A priority whose next message has waited this long is behind: a message accepted now would arrive as late."""
RATIO_DECAY: Final = 0.9
"""How slowly the estimate follows a better compression ratio; a worse one counts at once."""
RATIO_MIN: Final = 0.02


class EndpointState(enum.Enum):
    """The states of one stream (a priority, or a deferred topic of one); ``TRANSITIONS`` is the whole machine.

        IDLE ──SEND──▶ SENDING ──NACK──▶ DRAINING ──RETRY──▶ BACKOFF ──DUE──▶ IDLE ──NACK──▶ DRAINING
         ▲               │ │                │  │
         ├──ANSWERED─────┘ │                │  └──GIVE_UP──▶ DEAD ──REVIVE──▶ IDLE
         └──LOST───────────┴────────────────┘

    IDLE      nothing is unanswered; what waits may leave
    SENDING   batches are unanswered; more may be sent, up to the depth of the stream
    DRAINING  an answer accepted nothing; nothing is sent until all answers arrived
    BACKOFF   waits for its retry time; less urgent priorities continue
    DEAD      the delivery policy allows no more retries; waiting messages go to the dead letters until it is revived

    The seed drops batches while an endpoint is dead; here they become dead letters, so nothing is lost.
    """

    IDLE = "idle"
    SENDING = "sending"
    DRAINING = "draining"
    BACKOFF = "backoff"
    DEAD = "dead"


class EndpointEvent(enum.Enum):
    SEND = "send"
    """A batch is sent."""
    ANSWERED = "answered"
    """The last answer arrived, and all were positive."""
    NACK = "nack"
    """An answer accepted nothing; for a newly deferred topic, the answer to a batch that also had other topics."""
    LOST = "lost"
    """The link ended before the last answer arrived."""
    RETRY = "retry"
    """The last answer arrived; the failed batch is sent again at a later time."""
    GIVE_UP = "give up"
    """The last answer arrived; the delivery policy allows no retry."""
    DUE = "due"
    """The retry time has come, or a success elsewhere or a new session ended the wait."""
    REVIVE = "revive"
    """It was dead for long enough, or a new session opened."""


TRANSITIONS: Final = StateTable(
    "a stream",
    {
        (EndpointState.IDLE, EndpointEvent.SEND): EndpointState.SENDING,
        (EndpointState.IDLE, EndpointEvent.NACK): EndpointState.DRAINING,
        (EndpointState.SENDING, EndpointEvent.SEND): EndpointState.SENDING,
        (EndpointState.SENDING, EndpointEvent.ANSWERED): EndpointState.IDLE,
        (EndpointState.SENDING, EndpointEvent.NACK): EndpointState.DRAINING,
        (EndpointState.SENDING, EndpointEvent.LOST): EndpointState.IDLE,
        (EndpointState.DRAINING, EndpointEvent.NACK): EndpointState.DRAINING,
        (EndpointState.DRAINING, EndpointEvent.LOST): EndpointState.IDLE,
        (EndpointState.DRAINING, EndpointEvent.RETRY): EndpointState.BACKOFF,
        (EndpointState.DRAINING, EndpointEvent.GIVE_UP): EndpointState.DEAD,
        (EndpointState.BACKOFF, EndpointEvent.DUE): EndpointState.IDLE,
        (EndpointState.DEAD, EndpointEvent.REVIVE): EndpointState.IDLE,
    },
)


class Fetch(msgspec.Struct, frozen=True, kw_only=True):
    """Fetch the next live messages of this queue.  ``rewinds`` shows whether a failure has made the fetch obsolete."""

    queue: QueueId
    topic: str = ""
    """The deferred topic whose stream fetches; "" for the queue's own."""
    after: int
    messages_max: int
    bytes_max: int
    rewinds: int


class SendBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Send this batch on the link, in the order of these effects."""

    batch: int
    queue: QueueId
    topic: str = ""
    """The deferred topic that is sent separately, in its own order; "" for the queue's own stream."""
    items: tuple[Item, ...]
    follows: bool = False
    """An earlier batch of this stream is still unanswered; if the hub defers that, it defers this one as well."""


class Settle(msgspec.Struct, frozen=True, kw_only=True):
    """Settle these offsets durably; then call ``settled``."""

    batch: int
    queue: QueueId
    sent: tuple[int, ...]
    refused: tuple[Refusal, ...]
    checkpoint: int


class PumpWait(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing to do before the next event, or before ``until`` (None: no time)."""

    until: float | None = None


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Why the hub accepts nothing of a queue, or of a deferred ``topic`` of it: since when, the last answer, and the
    next attempt.  Times are on the pump's clock."""

    topic: str = ""
    since: float
    code: str
    reason: str
    attempts: int
    retry_at: float | None


class _Failure(msgspec.Struct, frozen=True):
    """The latest answer that accepted nothing, and the first offset to send again."""

    answer: Nack
    first: int


class Stream:
    """A queue, or a deferred ``topic`` of one: its state machine, and its position in the log.

    All streams of a queue share its ``checkpointer``; each needs to know what the others have not done (``remaining``).
    """

    def __init__(self, queue: QueueId, checkpointer: Checkpointer, *, topic: str = "", cursor: int) -> None:
        self.queue = queue
        self.topic = topic
        self.rank = rank(queue.priority)
        self.checkpointer = checkpointer
        self._state = EndpointState.IDLE
        self._cursor = cursor
        self._has_more = True
        self._drains = False
        self._rewinds = 0
        self._unanswered: dict[int, tuple[int, ...]] = {}
        self._settling: dict[int, tuple[int, ...]] = {}
        self._durable: list[int] = []
        """Settled offsets above the checkpoint."""
        self._failure: _Failure | None = None
        """While DRAINING."""
        self._troubled_since: float | None = None
        """When the first answer arrived that accepted nothing; None once one accepted something."""
        self._last_nack: Nack | None = None
        self._attempts = 0
        self._previous_seconds = 0.0
        self._retry_at: float | None = None
        """While in BACKOFF."""
        self._dead_since = 0.0
        """While DEAD."""
        self._messages_max = BATCH_MESSAGES_MAX
        self._ratio = 1.0
        """Bytes on the link per byte of content."""
        self._depth = 1
        """Batches of this stream that may be unanswered now.  One after a failure: a hub that recovers while several
        are in flight would accept the later ones and miss the first."""
        self._is_behind = False

    # ---- reads ----

    @property
    def state(self) -> EndpointState:
        return self._state

    @property
    def has_more(self) -> bool:
        """Whether something may be in the log above the cursor."""
        return self._has_more

    @property
    def cursor(self) -> int:
        """Everything up to here was fetched."""
        return self._cursor

    @property
    def remaining(self) -> int:
        """The lowest offset that may not be done durably."""
        found = [self._cursor + 1]
        found += (min(batch) for batch in (*self._unanswered.values(), *self._settling.values()))
        if self._failure is not None:
            found.append(self._failure.first)
        return min(found)

    @property
    def has_caught_up(self) -> bool:
        """For a deferred topic: whether everything up to the queue's cursor is done."""
        return self._state is EndpointState.IDLE and not (self._has_more or self._settling)

    @property
    def is_behind(self) -> bool:
        """Whether the last fetched message had waited long, and more messages wait."""
        return self._is_behind

    @property
    def retry_at(self) -> float | None:
        """When it is sent again; None unless in BACKOFF."""
        return self._retry_at

    @property
    def is_retrying(self) -> bool:
        """Whether the last batch failed, and none was accepted since."""
        return self._attempts > 0

    @property
    def batches(self) -> int:
        """The number of unanswered batches."""
        return len(self._unanswered)

    @property
    def offsets_out(self) -> Iterator[int]:
        """Offsets in batches that are unanswered, or answered and not settled."""
        for batch in (*self._unanswered.values(), *self._settling.values()):
            yield from batch

    def offsets_of(self, batch: int) -> tuple[int, ...]:
        """The offsets of an unanswered batch."""
        return self._unanswered[batch]

    @property
    def is_full(self) -> bool:
        """Whether no further batch may be sent before an answer."""
        return len(self._unanswered) >= (1 if self._drains else self._depth)

    @property
    def must_settle_first(self) -> bool:
        """Whether offsets being settled are above the cursor, or go to the dead letters: do not fetch them again."""
        if self._state is EndpointState.DEAD:
            return bool(self._settling)
        return any(offsets[-1] > self._cursor for offsets in self._settling.values())

    def trouble(self) -> Trouble | None:
        """Why the hub accepts nothing; None while it does."""
        if self._troubled_since is None or self._last_nack is None:
            return None
        return Trouble(
            topic=self.topic,
            since=self._troubled_since,
            code=self._last_nack.code,
            reason=self._last_nack.reason,
            attempts=self._attempts,
            retry_at=self._retry_at,
        )

    # ---- from the store to the link ----

    def appended(self) -> None:
        """Something was stored."""
        self._has_more = True

    def fetch(self, frame_bytes: int) -> Fetch:
        """The next messages, for a frame of this size."""
        self._has_more = False
        return Fetch(
            queue=self.queue,
            topic=self.topic,
            after=self._cursor,
            messages_max=self._messages_max,
            bytes_max=min(BATCH_BYTES_MAX, max(1, int(frame_bytes / self._ratio))),
            rewinds=self._rewinds,
        )

    def fetched(self, fetch: Fetch, page: Sequence[Item], mine: Sequence[Item], now: float) -> tuple[Item, ...]:
        """Those that may be sent: none if a failure occurred meanwhile, and none that expired.

        ``mine`` are the messages of the page that belong to this stream; it skips the others.
        """
        if self._rewinds != fetch.rewinds or self._state is EndpointState.DRAINING:
            self._has_more = True
            return ()
        if page:
            self._cursor = page[-1].offset
            size = sum(len(item.content) for item in page)
            # A page that reaches no limit was the last: less urgent queues need not wait for its answer.
            self._has_more = self._has_more or len(page) >= fetch.messages_max or size >= fetch.bytes_max
        self._is_behind = self._has_more and bool(mine) and now - mine[0].enqueued >= BEHIND_SECONDS
        return tuple(item for item in mine if item.live(now))

    def send(self, batch: int, offsets: tuple[int, ...]) -> bool:
        """A batch is sent; returns whether an earlier one is unanswered."""
        follows = bool(self._unanswered)
        self._drains = False
        self._step(EndpointEvent.SEND)
        self._unanswered[batch] = offsets
        return follows

    def packed(self, content: int, size: int) -> None:
        """A batch with ``content`` bytes became a frame of ``size`` bytes."""
        ratio = max(RATIO_MIN, size / max(1, content))
        self._ratio = max(ratio, RATIO_DECAY * self._ratio + (1 - RATIO_DECAY) * ratio)

    def frame_bytes(self, content: int) -> int:
        """The estimated size of a frame for ``content`` bytes."""
        return int(content * self._ratio)

    def dead_letter(self, batch: int, offsets: tuple[int, ...], others: int | None) -> int:
        """These go to the dead letters; returns the checkpoint to write with them."""
        checkpoint = self._commit(offsets, others)
        self._settling[batch] = offsets
        return checkpoint

    # ---- answers ----

    def acked(self, batch: int, done: tuple[int, ...], depth_max: int, others: int | None) -> int:
        """``done`` were accepted or refused permanently, the rest is another stream's; returns the checkpoint to write.

        ``others`` is ``remaining`` of the queue's other streams; None if there are none.
        """
        del self._unanswered[batch]
        self._troubled_since = None
        if self._failure is None:
            self._attempts = 0
            self._depth = min(self._depth + 1, depth_max)
        self._messages_max = min(self._messages_max * 2, BATCH_MESSAGES_MAX)
        checkpoint = self._commit(done, others)
        if done:
            self._settling[batch] = done
        if self._state is EndpointState.SENDING and not self._unanswered:
            self._step(EndpointEvent.ANSWERED)
        return checkpoint

    def nacked(self, batch: int, answer: Nack, done: tuple[int, ...], now: float, others: int | None) -> int:
        """Only ``done`` was accepted; returns the checkpoint to write.  Call ``conclude`` once all answers arrived."""
        offsets = self._unanswered.pop(batch)
        rest = tuple(offset for offset in offsets if offset not in done)
        if answer.permanent:
            # One message is poison: halve the batch until it is alone and becomes a dead letter; the rest continue.
            self._messages_max = max(1, len(rest) // 2)
        if done:
            self._attempts = 0
            self._troubled_since = None
            self._settling[batch] = done
        self._failed(answer, rest, now)
        return self._commit(done, others)

    def deferred(self, offset: int, answer: Nack, now: float) -> None:
        """For a deferred topic: nothing from ``offset`` on was accepted in a batch of the queue's own stream."""
        if self._last_nack is None:
            self._failed(answer, (min(offset, self._cursor + 1),), now)
        else:
            self._go_back(offset)

    def _failed(self, answer: Nack, rest: tuple[int, ...], now: float) -> None:
        self._failure = _Failure(answer, self._first_to_repeat(rest))
        self._last_nack = answer
        if self._troubled_since is None:
            self._troubled_since = now
        self._step(EndpointEvent.NACK)

    def conclude(self, policy: DeliveryPolicy, uniform: Uniform, now: float) -> bool:
        """After a failure, once all answers arrived: back off, or give up.  Returns False if it is too early."""
        failure = self._failure
        if failure is None or self._unanswered:
            return False
        self._failure = None
        self._depth = 1
        self._go_back(failure.first)
        if failure.answer.permanent:
            self._back_off(now)
            return True
        delay = next_delay(policy, self._attempts, uniform=uniform, previous_seconds=self._previous_seconds)
        if delay is None:
            self._step(EndpointEvent.GIVE_UP)
            self._dead_since = now
            return True
        self._attempts += 1
        self._previous_seconds = delay.seconds
        self._messages_max = PROBE_MESSAGES
        # A delay that the hub asks for, within bounds, is better than our backoff, and the probe is small.
        asked = failure.answer.retry_after
        wait = delay.seconds if asked is None else min(max(asked, RETRY_AFTER_SECONDS_MIN), RETRY_AFTER_SECONDS_MAX)
        self._back_off(now + wait)
        return True

    def lost(self, batch: int) -> None:
        """No answer will come: it is sent again, which does not count as a retry."""
        self._go_back(self._first_to_repeat(self._unanswered.pop(batch)))
        if not self._unanswered:
            self._failure = None
            self._step(EndpointEvent.LOST)

    def settled(self, batch: int) -> None:
        """The store settled the batch."""
        self._durable += self._settling.pop(batch)

    def drain(self) -> None:
        """The next batch waits until nothing is unanswered: it then follows no other, so the hub ends the deferral."""
        self._drains = True

    # ---- waits ----

    def retry_no_later_than(self, time: float) -> None:
        """The hub accepts messages again: shortens the wait that the failure caused."""
        if self._retry_at is not None:
            self._retry_at = min(self._retry_at, time)

    def is_due(self, now: float) -> bool:
        """Whether its retry time has come."""
        return self._retry_at is not None and self._retry_at <= now

    def come_due(self) -> None:
        """The wait is over."""
        if self._state is EndpointState.BACKOFF:
            self._retry_at = None
            self._step(EndpointEvent.DUE)

    def revive(self, now: float) -> None:
        """A dead priority tries again after ``DEAD_SECONDS``."""
        if self._state is EndpointState.DEAD and now - self._dead_since >= REVIVE_SECONDS:
            self._step(EndpointEvent.REVIVE)

    def reset(self) -> None:
        """A session opened: ends every wait and forgets every failure."""
        self.come_due()
        if self._state is EndpointState.DEAD:
            self._step(EndpointEvent.REVIVE)
        self._attempts = 0
        self._depth = 1

    # ---- helpers ----

    def _step(self, event: EndpointEvent) -> None:
        self._state = TRANSITIONS.step(self._state, event)

    def _back_off(self, until: float) -> None:
        self._step(EndpointEvent.RETRY)
        self._retry_at = until

    def _first_to_repeat(self, offsets: tuple[int, ...]) -> int:
        return min(offsets) if self._failure is None else min(*offsets, self._failure.first)

    def _go_back(self, offset: int) -> None:
        """Start again at ``offset``; a fetch under way becomes obsolete."""
        self._cursor = min(self._cursor, offset - 1)
        self._rewinds += 1
        self._has_more = True

    def _commit(self, offsets: tuple[int, ...], others: int | None) -> int:
        """The checkpoint to write together with the settlement of ``offsets``.

        It may not pass what is unanswered, failed, still to be fetched, or answered but not durable yet, in this stream
        or the queue's ``others``: after a crash that would count as done without a record of it.
        """
        remaining = self.remaining if others is None else min(self.remaining, others)
        # A settlement still under way already advanced the checkpointer, and this one may be written before it.
        checkpoint = min(self.checkpointer.commit((*self._durable, *offsets), (remaining,)), remaining - 1)
        # While a topic is deferred the checkpoint waits for it; what is done above it is no longer in the store.
        self._durable = [offset for offset in self._durable if offset > checkpoint] if others is None else []
        return checkpoint
