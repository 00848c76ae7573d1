"""One stream of the pump: its state, its position in its log, what is unanswered, and what it waits for.

A queue has one stream, and one more for each topic that the hub deferred: that one sends the messages of its topic,
behind its own cursor, until it has caught up with the queue's.  All of it changes in the methods here and nowhere
else; the pump calls them and reads properties.
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
"""A batch ends with the message that reaches it."""
PROBE_MESSAGES: Final = 16
"""Size of the batch that finds out whether a failure is over; each success doubles it, up to a full batch."""
RETRY_AFTER_SECONDS_MIN: Final = 0.1
RETRY_AFTER_SECONDS_MAX: Final = 3600.0
"""The range a hub may ask for; anything else is taken for a mistake."""
REVIVE_SECONDS: Final = 30.0
"""How long a priority whose retries are used up sends nothing and moves its messages to the dead letters."""
BEHIND_SECONDS: Final = 10.0
"""A priority whose next message has waited this long is behind: what is accepted now would be as late."""
RATIO_DECAY: Final = 0.9
"""How slowly a good compression ratio is trusted; a bad one counts at once."""
RATIO_MIN: Final = 0.02


class EndpointState(enum.Enum):
    """The states of one stream (a priority, or a deferred topic of one); ``TRANSITIONS`` is the whole machine.

        IDLE ──SEND──▶ SENDING ──NACK──▶ DRAINING ──RETRY──▶ BACKOFF ──DUE──▶ IDLE ──NACK──▶ DRAINING
         ▲               │ │                │  │
         ├──ANSWERED─────┘ │                │  └──GIVE_UP──▶ DEAD ──REVIVE──▶ IDLE
         └──LOST───────────┴────────────────┘

    IDLE      nothing is unanswered; what waits may leave
    SENDING   batches are unanswered; more may leave, up to the depth of the stream
    DRAINING  an answer accepted nothing; nothing leaves until all answers are in
    BACKOFF   waits for its retry time; less urgent priorities go on meanwhile
    DEAD      the delivery policy allows no more retries; what waits is moved to the dead letters, until it is revived

    The seed drops batches while an endpoint is dead; here they become dead letters, so nothing is lost.
    """

    IDLE = "idle"
    SENDING = "sending"
    DRAINING = "draining"
    BACKOFF = "backoff"
    DEAD = "dead"


class EndpointEvent(enum.Enum):
    SEND = "send"
    """A batch leaves."""
    ANSWERED = "answered"
    """The last answer is in, and all were good."""
    NACK = "nack"
    """An answer accepted nothing; for a newly deferred topic, the answer to a batch that had other topics too."""
    LOST = "lost"
    """The link ended before the last answer."""
    RETRY = "retry"
    """The last answer is in; the failed batch goes again at a time."""
    GIVE_UP = "give up"
    """The last answer is in; the delivery policy allows no retry."""
    DUE = "due"
    """The retry time has come, or the wait was ended by a success elsewhere or by a new session."""
    REVIVE = "revive"
    """It was dead long enough, or a new session opened."""


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
    """The next live messages of this queue.  By ``rewinds`` a fetch that a failure overtook is known."""

    queue: QueueId
    topic: str = ""
    """For the stream of this topic that was deferred; "": for the queue's own."""
    after: int
    messages_max: int
    bytes_max: int
    rewinds: int


class SendBatch(msgspec.Struct, frozen=True, kw_only=True):
    """This batch on the link, in the order of these effects."""

    batch: int
    queue: QueueId
    topic: str = ""
    """The hub deferred this topic: its messages go apart, in an order of their own."""
    items: tuple[Item, ...]
    follows: bool = False
    """An earlier batch of this stream is unanswered as this one leaves; the hub puts them off together."""


class Settle(msgspec.Struct, frozen=True, kw_only=True):
    """These offsets done, durably; then call ``settled``."""

    batch: int
    queue: QueueId
    sent: tuple[int, ...]
    refused: tuple[Refusal, ...]
    checkpoint: int


class PumpWait(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing to do before something happens, or before ``until`` (None: whatever the clock says)."""

    until: float | None = None


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Why nothing of a queue, or of a deferred ``topic`` of it, is taken: since when (by the pump's clock), the last
    answer, and the next try."""

    topic: str = ""
    since: float
    code: str
    reason: str
    attempts: int
    retry_at: float | None


class _Failure(msgspec.Struct, frozen=True):
    """The latest answer that took nothing, and the first offset that goes again."""

    answer: Nack
    first: int


class Stream:
    """A queue, or a deferred ``topic`` of one: its state machine, and where it is in its log.

    ``checkpointer``: the queue's; what its streams have not done, each tells the others (``remaining``).
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
        """Settled offsets the checkpoint has not passed yet."""
        self._failure: _Failure | None = None
        """While DRAINING."""
        self._troubled_since: float | None = None
        """When the first answer came that took nothing; None once one took something."""
        self._last_nack: Nack | None = None
        self._attempts = 0
        self._previous_seconds = 0.0
        self._retry_at: float | None = None
        """While in BACKOFF."""
        self._dead_since = 0.0
        """While DEAD."""
        self._messages_max = BATCH_MESSAGES_MAX
        self._ratio = 1.0
        """Bytes on the link for each byte of content."""
        self._depth = 1
        """Batches of this stream that may be unanswered now.  One after a failure: a cloud that comes back while
        several are in flight would take the later ones and miss the first."""
        self._is_behind = False

    # ---- reads ----

    @property
    def state(self) -> EndpointState:
        return self._state

    @property
    def has_more(self) -> bool:
        """Something may be in the log above the cursor."""
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
        """Of a deferred topic: everything up to the queue's cursor is done."""
        return self._state is EndpointState.IDLE and not (self._has_more or self._settling)

    @property
    def is_behind(self) -> bool:
        """What was fetched last had waited for long, and more waits."""
        return self._is_behind

    @property
    def retry_at(self) -> float | None:
        """When it goes again; None unless in BACKOFF."""
        return self._retry_at

    @property
    def is_retrying(self) -> bool:
        """The last batch failed, and none was taken since."""
        return self._attempts > 0

    @property
    def batches(self) -> int:
        """Batches that are unanswered."""
        return len(self._unanswered)

    @property
    def offsets_out(self) -> Iterator[int]:
        """Of batches that are unanswered, or answered and not settled."""
        for batch in (*self._unanswered.values(), *self._settling.values()):
            yield from batch

    def offsets_of(self, batch: int) -> tuple[int, ...]:
        """Of an unanswered batch."""
        return self._unanswered[batch]

    @property
    def is_full(self) -> bool:
        """No further batch may leave before an answer."""
        return len(self._unanswered) >= (1 if self._drains else self._depth)

    @property
    def must_settle_first(self) -> bool:
        """What is being settled lies above the cursor, or is being buried: it must not be fetched again."""
        if self._state is EndpointState.DEAD:
            return bool(self._settling)
        return any(offsets[-1] > self._cursor for offsets in self._settling.values())

    def trouble(self) -> Trouble | None:
        """None while what is sent is taken."""
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
        """Those that may leave: none if a failure came meanwhile, and none whose time has come.

        ``mine``: those of the page that are this stream's; it has passed the others.
        """
        if self._rewinds != fetch.rewinds or self._state is EndpointState.DRAINING:
            self._has_more = True
            return ()
        if page:
            self._cursor = page[-1].offset
            size = sum(len(item.content) for item in page)
            # A batch that ends short of its limits was the last: less urgent ones need not wait for its answer.
            self._has_more = self._has_more or len(page) >= fetch.messages_max or size >= fetch.bytes_max
        self._is_behind = self._has_more and bool(mine) and now - mine[0].enqueued >= BEHIND_SECONDS
        return tuple(item for item in mine if item.live(now))

    def send(self, batch: int, offsets: tuple[int, ...]) -> bool:
        """A batch leaves; returns whether an earlier one is unanswered."""
        follows = bool(self._unanswered)
        self._drains = False
        self._step(EndpointEvent.SEND)
        self._unanswered[batch] = offsets
        return follows

    def packed(self, content: int, size: int) -> None:
        """A batch of so much content became a frame of this size."""
        ratio = max(RATIO_MIN, size / max(1, content))
        self._ratio = max(ratio, RATIO_DECAY * self._ratio + (1 - RATIO_DECAY) * ratio)

    def frame_bytes(self, content: int) -> int:
        """About how large a frame so much content becomes."""
        return int(content * self._ratio)

    def bury(self, batch: int, offsets: tuple[int, ...], others: int | None) -> int:
        """These go to the dead letters; returns the checkpoint to write with it."""
        checkpoint = self._commit(offsets, others)
        self._settling[batch] = offsets
        return checkpoint

    # ---- answers ----

    def acked(self, batch: int, done: tuple[int, ...], depth_max: int, others: int | None) -> int:
        """These of it are taken or refused for good, the rest is another stream's; returns the checkpoint to write.

        ``others``: ``remaining`` of the queue's other streams; None: it has none.
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
        """Only ``done`` of it was taken; returns the checkpoint to write.  ``conclude`` when all answers are in."""
        offsets = self._unanswered.pop(batch)
        rest = tuple(offset for offset in offsets if offset not in done)
        if answer.permanent:
            # One of them is poison: halve until it is alone, then it goes to the dead letters and the rest go on.
            self._messages_max = max(1, len(rest) // 2)
        if done:
            self._attempts = 0
            self._troubled_since = None
            self._settling[batch] = done
        self._failed(answer, rest, now)
        return self._commit(done, others)

    def deferred(self, offset: int, answer: Nack, now: float) -> None:
        """Of a deferred topic: this and what is behind it was not taken in a batch of the queue's stream."""
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
        """After a failure, once all answers are in: when it goes again, or that it does not.  False: not yet."""
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
        # A hub that says when knows better than our curve, within reason, and the probe is small.
        asked = failure.answer.retry_after
        wait = delay.seconds if asked is None else min(max(asked, RETRY_AFTER_SECONDS_MIN), RETRY_AFTER_SECONDS_MAX)
        self._back_off(now + wait)
        return True

    def lost(self, batch: int) -> None:
        """No answer will come: it goes again, and costs no retry."""
        self._go_back(self._first_to_repeat(self._unanswered.pop(batch)))
        if not self._unanswered:
            self._failure = None
            self._step(EndpointEvent.LOST)

    def settled(self, batch: int) -> None:
        """The store has done what it was asked for."""
        self._durable += self._settling.pop(batch)

    def drain(self) -> None:
        """The next batch waits until nothing is unanswered: it follows nothing, so the hub forgets what it deferred."""
        self._drains = True

    # ---- waits ----

    def retry_no_later_than(self, time: float) -> None:
        """What failed works again: a wait that was meant for the failure ends."""
        if self._retry_at is not None:
            self._retry_at = min(self._retry_at, time)

    def is_due(self, now: float) -> bool:
        """Its retry time has come."""
        return self._retry_at is not None and self._retry_at <= now

    def come_due(self) -> None:
        """The wait is over."""
        if self._state is EndpointState.BACKOFF:
            self._retry_at = None
            self._step(EndpointEvent.DUE)

    def revive(self, now: float) -> None:
        """A dead priority tries again after some time."""
        if self._state is EndpointState.DEAD and now - self._dead_since >= REVIVE_SECONDS:
            self._step(EndpointEvent.REVIVE)

    def reset(self) -> None:
        """A session opened: every wait ends, every failure is forgiven."""
        self.come_due()
        if self._state is EndpointState.DEAD:
            self._step(EndpointEvent.REVIVE)
        self._attempts = 0
        self._depth = 1

    # ---- parts ----

    def _step(self, event: EndpointEvent) -> None:
        self._state = TRANSITIONS.step(self._state, event)

    def _back_off(self, until: float) -> None:
        self._step(EndpointEvent.RETRY)
        self._retry_at = until

    def _first_to_repeat(self, offsets: tuple[int, ...]) -> int:
        return min(offsets) if self._failure is None else min(*offsets, self._failure.first)

    def _go_back(self, offset: int) -> None:
        """Start again at ``offset``; a fetch under way is void."""
        self._cursor = min(self._cursor, offset - 1)
        self._rewinds += 1
        self._has_more = True

    def _commit(self, offsets: tuple[int, ...], others: int | None) -> int:
        """The checkpoint to write together with the settlement of ``offsets``.

        It may not pass what is unanswered, failed, to be fetched (again), or answered but not durable yet, in this
        stream or the queue's ``others``: after a crash that would count as done without having been noted anywhere.
        """
        remaining = self.remaining if others is None else min(self.remaining, others)
        # Advanced already by a settlement still under way: this one may overtake it on its way to the disk.
        checkpoint = min(self.checkpointer.commit((*self._durable, *offsets), (remaining,)), remaining - 1)
        # While a topic is deferred the checkpoint waits for it; what is done behind it is no longer in the store.
        self._durable = [offset for offset in self._durable if offset > checkpoint] if others is None else []
        return checkpoint
