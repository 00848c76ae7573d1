"""Which batch goes up next, and what an answer means (seed: route priority and time-to-live, "Handling priorities").

    next ─Fetch▶ (store) ─fetched▶ Send ▶ (link) ─answered▶ Settle ▶ (store) ─settled▶ next
      └─Wait until a message, an answer, the link or a retry time

The rules, in the order they decide:

- always the highest priority that has anything waiting; after each batch from the top again;
- a batch holds messages of one priority only, whose time has not come when it is sent;
- several batches may be unanswered at once (the hub's window); within a priority they leave in order, one at a
  time at first and one more with each answer; after a failure nothing of that priority leaves until all its
  answers are in: then it starts again, one at a time, at the first message that is not settled;
- a priority that failed is parked by the delivery policy and holds up nobody; when a parked one comes due, every
  more urgent one comes due with it, so that the retry that finds the cloud healthy again is the most urgent;
- a lost link costs no retry, and a link that comes back ends every wait at once;
- when nothing at all would be taken (the hub says so: messaging is away), nothing less urgent than what failed is
  tried before that is due again; then, and in a new session, one batch alone finds out, the most urgent first;
- the bytes unanswered are held to what the link carried lately (``pace``); what is more urgent than all in flight
  leaves all the same, and has the last place of the hub's window to itself.

Pure: the clock (seconds, any origin, never falling) and the draws of jitter are arguments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead_edge.outbox.checkpoint import NOTHING_DONE
from fairlead_edge.outbox.outbox import Item, Refusal
from fairlead_edge.outbox.pump.endpoint_state import Command, State
from fairlead_edge.outbox.pump.pace import Pace
from fairlead_edge.outbox.pump.stream import BATCH_MESSAGES_MAX, Stream, Trouble
from fairlead_edge.outbox.queue_id import QueueId
from fairlead_wire.delivery import DeliveryPolicy, Uniform
from fairlead_wire.message import Ack, Nack

SPARING_WINDOW: Final = 4
"""From this window on its last place is left to what is more urgent than all in flight."""

UPSTREAM_POLICY: Final = DeliveryPolicy(
    retries_with_no_delay=0,
    minimum_delay_retries=0,
    minimum_delay=1,
    maximum_delay=60,
    backoff_retries=7,
    maximum_delay_retries=190_000,
    retry_backoff_function="exponential",
    jitter="equal",
)
"""1, 2, 4 … 60 s, then every 60 s, spread out: practically without end, as with store and forward in the original."""


class Fetch(msgspec.Struct, frozen=True, kw_only=True):
    """Wanted: the next live messages of this queue.  ``turn`` tells a fetch that was overtaken by a failure."""

    queue: QueueId
    after: int
    messages_max: int
    bytes_max: int
    turn: int


class Send(msgspec.Struct, frozen=True, kw_only=True):
    """Wanted: this batch on the link, in the order of these effects."""

    batch: int
    queue: QueueId
    items: tuple[Item, ...]
    follows: bool = False
    """An earlier batch of this queue is unanswered as this one leaves; the hub puts them off together."""


class Settle(msgspec.Struct, frozen=True, kw_only=True):
    """Wanted: these offsets done, durably; then call ``settled``."""

    batch: int
    queue: QueueId
    sent: tuple[int, ...]
    refused: tuple[Refusal, ...]
    checkpoint: int


class _Away(msgspec.Struct):
    """Nothing would be taken: ``priority`` and what is less urgent wait until then."""

    priority: int
    until: float


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing to do before something happens, or before ``until`` (None: whatever the clock says)."""

    until: float | None = None


class Pump:
    """Decides for one endpoint.  Not thread-safe; the driver performs the effects."""

    def __init__(self, endpoint: str, *, policy: DeliveryPolicy = UPSTREAM_POLICY, uniform: Uniform) -> None:
        self.endpoint = endpoint
        self._policy = policy
        self._uniform = uniform
        self._streams: dict[int, Stream] = {}
        self._window = 0
        self._pace = Pace()
        self._away: _Away | None = None
        self._probing = True
        """It is not known whether anything is taken: one batch at a time."""
        self._batches: dict[int, Stream] = {}
        self._content: dict[int, int] = {}
        """Bytes of content of batches that are being packed."""
        self._next_batch = 1

    # ---- what happened ----

    def found(self, queue: QueueId, checkpoint: int) -> None:
        """A queue lies on disk, done up to ``checkpoint``; whether anything waits in it the first fetch tells."""
        self._streams[queue.priority] = Stream(queue, checkpoint)

    def offered(self, priority: int) -> None:
        """Something was stored under this priority."""
        stream = self._streams.get(priority)
        if stream is None:
            self._streams[priority] = Stream(QueueId(self.endpoint, priority), NOTHING_DONE)
        else:
            stream.waiting = True

    def link_up(self, window: int) -> None:
        """A session opened; it takes ``window`` batches unanswered.  Every wait ends, every failure is forgiven."""
        self._window = window
        self._pace.begin()
        self._away, self._probing = None, True
        for stream in self._streams.values():
            if stream.state in (State.IDLE, State.FAILING, State.DEAD_IDLE):
                stream.command(Command.UPDATE_ENDPOINT)
            stream.attempts = 0
            stream.retry_at = None
            stream.depth = 1

    def link_down(self) -> None:
        """The session ended.  Each unanswered batch is reported by ``lost`` as well."""
        self._window = 0

    def packed(self, batch: int, size: int, now: float) -> None:
        """The frame of this batch has so many bytes, and leaves now."""
        stream = self._batches[batch]
        stream.packed(self._content.pop(batch), size)
        self._pace.left(batch, size, now)

    def answered(self, batch: int, answer: Ack | Nack, now: float) -> Settle | None:
        """The hub answered; what is done has to be settled."""
        stream = self._batches[batch]
        offsets = stream.unanswered.pop(batch)
        self._content.pop(batch, None)
        self._pace.answered(batch, answer.held_seconds, now)
        is_away = isinstance(answer, Nack) and answer.scope == "hub"
        self._probing = self._probing and is_away
        if isinstance(answer, Ack):
            if self._away is not None:
                self._recovered(now)
            refusals = {
                r.index: Refusal(offsets[r.index], r.code, r.reason) for r in answer.refused if r.index < len(offsets)
            }
            return self._done(stream, batch, offsets, refusals, now)
        if answer.permanent and len(offsets) == 1:
            return self._done(stream, batch, offsets, {0: Refusal(offsets[0], answer.code, answer.reason)}, now)
        del self._batches[batch]
        if answer.permanent:
            # One of them is poison: halve until it is alone, then it goes to the dead letters and the rest go on.
            stream.messages_max = max(1, len(offsets) // 2)
        self._failed(stream, offsets, answer, now)
        return None

    def lost(self, batch: int) -> None:
        """The link ended before an answer came: the batch stays where it is and goes again, first of its priority."""
        stream = self._batches.pop(batch)
        self._content.pop(batch, None)
        self._pace.lost(batch)
        first = min(stream.unanswered.pop(batch))
        stream.go_back(first if stream.failed_from is None else min(first, stream.failed_from))
        self._away = None
        if not stream.unanswered:
            stream.failed_from = stream.failure = None
            stream.command(Command.THROW)

    def settled(self, batch: int) -> None:
        """The store has done what ``Settle`` asked for."""
        stream = self._batches.pop(batch)
        stream.durable += stream.settling.pop(batch)
        if stream.state is State.DEAD_CHECKPOINTING:
            stream.command(Command.DEAD_SUCCEED)
        elif stream.state is State.CHECKPOINTING and not stream.settling:
            stream.command(Command.SUCCEED)

    # ---- what is wanted ----

    def next(self, now: float) -> Fetch | Wait:
        """The one thing to do now.  ``Fetch`` is to be answered with ``fetched`` before ``next`` is called again."""
        if self._window == 0:
            return Wait()
        self._come_due(now)
        until: float | None = None
        for priority in sorted(self._streams):
            stream = self._streams[priority]
            if self._away is not None and priority >= self._away.priority and now < self._away.until:
                return Wait(until=_earlier(until, self._away.until))
            if not stream.waiting:
                continue
            if stream.retry_at is not None:
                until = _earlier(until, stream.retry_at)
                continue
            if stream.settling and stream.state not in (State.CHECKPOINTING, State.SENDING):
                continue  # what is being settled must not be fetched again
            if stream.failure or len(stream.unanswered) >= stream.depth or not self._may_leave(stream, now):
                return Wait(until=until)  # nothing less urgent may pass
            stream.waiting = False
            return Fetch(
                queue=stream.queue,
                after=stream.cursor,
                messages_max=stream.messages_max,
                bytes_max=stream.content_bytes(self._pace.batch_bytes(now)),
                turn=stream.turn,
            )
        return Wait(until=until)

    def fetched(self, fetch: Fetch, items: Sequence[Item], now: float) -> Send | Settle | None:
        """The store's answer to ``Fetch``.  Time to live is tested once more, for this is the moment of sending."""
        stream = self._streams[fetch.queue.priority]
        if stream.turn != fetch.turn:
            stream.waiting = True
            return None
        if items:
            stream.cursor = items[-1].offset
            size = sum(len(item.content) for item in items)
            # A batch that ends short of its limits was the last: less urgent ones need not wait for its answer.
            stream.waiting = stream.waiting or len(items) >= fetch.messages_max or size >= fetch.bytes_max
        live = tuple(item for item in items if item.live(now))
        if not live:
            stream.nothing_to_send()
            return None
        batch = self._next_batch
        self._next_batch += 1
        self._batches[batch] = stream
        offsets = tuple(item.offset for item in live)
        stream.start(now)
        if stream.state is State.DEAD_PROCESS:
            return self._bury(stream, batch, offsets)
        follows = bool(stream.unanswered)
        stream.unanswered[batch] = offsets
        self._content[batch] = sum(len(item.content) for item in live)
        self._pace.left(batch, int(self._content[batch] * stream.ratio), now)
        return Send(batch=batch, queue=stream.queue, items=live, follows=follows)

    def state(self, priority: int) -> State:
        """The state of one priority, for status and tests."""
        return self._streams[priority].state

    def troubles(self) -> dict[int, Trouble]:
        """By priority: why nothing is taken of what waits there."""
        found = {priority: stream.trouble() for priority, stream in self._streams.items()}
        return {priority: trouble for priority, trouble in found.items() if trouble is not None}

    @property
    def bytes_in_flight(self) -> int:
        """Of frames that left and are not answered."""
        return self._pace.in_flight

    # ---- parts ----

    def _may_leave(self, stream: Stream, now: float) -> bool:
        """Is there room in the hub's window, and on the link?"""
        in_flight = [other.queue.priority for other in self._streams.values() for _ in other.unanswered]
        if not in_flight:
            return True
        if len(in_flight) >= self._window:
            return False
        if stream.queue.priority < min(in_flight):
            return True
        spared = 1 if self._window >= SPARING_WINDOW else 0
        return not self._probing and len(in_flight) < self._window - spared and self._pace.has_room(now)

    def _come_due(self, now: float) -> None:
        if self._away is not None and self._away.until <= now:
            self._away, self._probing = None, True
            for stream in self._streams.values():
                stream.retry_at = None  # all failed by the same cause: the most urgent finds out whether it is over
        parked = [stream for stream in self._streams.values() if stream.retry_at is not None]
        due = [stream.queue.priority for stream in parked if stream.retry_at is not None and stream.retry_at <= now]
        for stream in parked:
            if due and stream.queue.priority <= max(due):
                stream.retry_at = None

    def _done(
        self, stream: Stream, batch: int, offsets: tuple[int, ...], refusals: dict[int, Refusal], now: float
    ) -> Settle:
        if stream.attempts:
            self._recovered(now)
        stream.troubled_since = None
        if stream.failure is None:
            stream.attempts = 0
            stream.depth = min(stream.depth + 1, self._window)
        stream.messages_max = min(stream.messages_max * 2, BATCH_MESSAGES_MAX)
        checkpoint = stream.commit(offsets)
        stream.settling[batch] = offsets
        self._answers_in(stream, now)
        return Settle(
            batch=batch,
            queue=stream.queue,
            sent=tuple(offset for index, offset in enumerate(offsets) if index not in refusals),
            refused=tuple(refusals.values()),
            checkpoint=checkpoint,
        )

    def _recovered(self, now: float) -> None:
        """What failed works again: nobody has to sit out a wait that was meant for the failure."""
        self._away = None
        for stream in self._streams.values():
            if stream.retry_at is not None:
                stream.retry_at = now

    def _failed(self, stream: Stream, offsets: tuple[int, ...], answer: Nack, now: float) -> None:
        first = min(offsets)
        stream.failed_from = first if stream.failed_from is None else min(first, stream.failed_from)
        stream.failure = answer
        stream.failed(answer, now)
        if answer.scope == "hub":
            self._hold_back(stream)
        self._answers_in(stream, now)

    def _answers_in(self, stream: Stream, now: float) -> None:
        """An answer came: once it was the last one, the batches in flight succeeded or failed together."""
        if stream.unanswered:
            return
        failure, failed_from = stream.failure, stream.failed_from
        if failure is None or failed_from is None:
            if stream.state is State.SENDING:
                stream.command(Command.CHECKPOINT)
            return
        stream.failure = stream.failed_from = None
        stream.depth = 1
        stream.go_back(failed_from)
        stream.command(Command.FAIL)
        stream.wait_or_die(failure, self._policy, self._uniform, now)
        if self._away is not None and self._away.until == math.inf:
            self._away.until = now if stream.retry_at is None else stream.retry_at

    def _hold_back(self, stream: Stream) -> None:
        """Nothing would be taken: what is as urgent as this or less waits, until its answers are in and it is due."""
        urgent = stream.queue.priority if self._away is None else min(self._away.priority, stream.queue.priority)
        self._away = _Away(urgent, math.inf)

    def _bury(self, stream: Stream, batch: int, offsets: tuple[int, ...]) -> Settle:
        stream.command(Command.CHECKPOINT)
        checkpoint = stream.commit(offsets)
        stream.settling[batch] = offsets
        return Settle(
            batch=batch,
            queue=stream.queue,
            sent=(),
            refused=tuple(
                Refusal(offset, "retries_used_up", "the delivery policy allows no more retries") for offset in offsets
            ),
            checkpoint=checkpoint,
        )


def _earlier(one: float | None, other: float) -> float | None:
    """None: no time at all."""
    first = other if one is None else min(one, other)
    return None if first == math.inf else first
