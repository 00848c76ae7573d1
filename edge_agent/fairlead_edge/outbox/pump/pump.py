"""Which batch is sent next, and what follows from an answer (seed: route priority and time-to-live).

    next ─Fetch▶ (store) ─fetched▶ Send ▶ (link) ─answered▶ Settle ▶ (store) ─settled▶ next
      └─Wait until a message, an answer, the link or a retry time

``stream.EndpointState`` has the states of one priority; ``next`` decides by them, and only ``Stream`` changes them.

The rules, in the order they decide:

- always the highest priority that has anything waiting; after each batch, start from the top again;
- a batch has messages of one priority only, none of which has expired when it is sent;
- several batches may be unanswered at once (the hub's window); within a priority they are sent in order, one at
  a time at first and one more with each answer; after a failure nothing of that priority is sent until all its answers
  have arrived; then it starts again, one at a time, at the first message that is not settled;
- a priority that failed backs off by the delivery policy and blocks no other; when one comes due, every more urgent
  one comes due with it, so that the first retry after an outage is the most urgent;
- a topic that the hub deferred (over its quota, forbidden) backs off alone: its messages are sent in their own stream,
  in order, and those of other topics pass it; once it has caught up, it rejoins them;
- a lost link does not count as a retry, and a new session ends every wait at once;
- when the hub reports that it can accept nothing (messaging is unavailable), nothing less urgent than what failed is
  tried before that is due again; then, and in a new session, a single batch probes first, the most urgent one;
- what the ``gate`` holds (hours, a budget for the day, a rate) waits and blocks no other;
- with a floor share, a less urgent priority with credit for a batch goes before the most urgent (``pace.Shares``);
- with a live share, what is accepted while a priority is behind goes into its live lane, a separate queue, which gets
  that share of the priority before the rest;
- the unanswered bytes are limited to what the link carried recently (``pace``); a batch that is more urgent than
  everything in flight is sent regardless, and the last place of the hub's window is reserved for it.

Pure: the clock (seconds, any origin, never decreasing) and the random numbers for jitter are arguments.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from fairlead_edge.outbox.delivery import UPSTREAM_POLICY
from fairlead_edge.outbox.outbox import Item, Refusal
from fairlead_edge.outbox.plan.gate import OPEN, HeldUntil, PumpGate
from fairlead_edge.outbox.pump.pace import Pace, Shares
from fairlead_edge.outbox.pump.stream import EndpointState, Fetch, PumpWait, SendBatch, Settle, Stream, Trouble
from fairlead_edge.outbox.queues import NOTHING_DONE, Checkpointer, QueueId, base, live_lane, rank
from fairlead_wire.delivery_policy import DeliveryPolicy, Uniform
from fairlead_wire.message import Ack, Nack

SPARING_WINDOW: Final = 4
"""From this window size on, its last place is reserved for what is more urgent than everything in flight."""
NOT_TRIED: Final = frozenset({"starting", "no_messaging", "behind_put_off"})
"""Codes with which a hub has stored nothing of the batch; after others, unnamed messages may be in their topic."""
DEFERRED_TOPICS_MAX: Final = 64
"""Deferred topics of one queue; with more of them, the queue waits as a whole."""


class _Outage(msgspec.Struct, frozen=True):
    """The hub accepts nothing: ``rank`` and less urgent queues wait until then (inf: until all answers arrived)."""

    rank: int
    until: float


class _SentBatch(msgspec.Struct):
    """A batch that was sent or goes to the dead letters, until it is settled, failed or lost."""

    stream: Stream
    topics: tuple[str, ...] = ()
    """The topics of its messages, in order; () for a batch that goes to the dead letters."""
    content_bytes: int = 0


class Pump:
    """The decisions for one endpoint.  Not thread-safe; the driver performs the effects."""

    def __init__(
        self,
        endpoint: str,
        *,
        policy: DeliveryPolicy = UPSTREAM_POLICY,
        uniform: Uniform,
        gate: PumpGate = OPEN,
        floor_share: float = 0.0,
        live_first_share: float = 0.0,
    ) -> None:
        self.endpoint = endpoint
        self._gate = gate
        self._shares = Shares(floor_share, live_first_share)
        self._has_lanes = live_first_share > 0
        self._policy = policy
        self._uniform = uniform
        self._streams: dict[tuple[int, str], Stream] = {}
        """By ``queues.rank`` and deferred topic ("": the queue's own stream)."""
        self._window = 0
        self._pace = Pace()
        self._outage: _Outage | None = None
        self._probing = True
        """It is unknown whether the hub accepts anything: send one batch at a time."""
        self._batches: dict[int, _SentBatch] = {}
        self._next_batch = 1

    # ---- events ----

    def found(self, queue: QueueId, checkpoint: int) -> None:
        """A queue was found on disk, done up to ``checkpoint``; the first fetch shows whether anything waits in it."""
        self._streams[rank(queue.priority), ""] = Stream(queue, Checkpointer(checkpoint), cursor=checkpoint)

    def appended(self, priority: int) -> None:
        """Something was stored under this priority."""
        stream = self._streams.get((rank(priority), ""))
        if stream is None:
            self.found(QueueId(self.endpoint, priority), NOTHING_DONE)
        else:
            stream.appended()

    def link_up(self, window: int) -> None:
        """A session opened, with a window of ``window`` unanswered batches.  Waits end and failures are forgotten."""
        self._window = window
        self._pace.begin()
        self._outage, self._probing = None, True
        for stream in self._streams.values():
            stream.reset()

    def link_down(self) -> None:
        """The session ended.  ``lost`` is also called for each unanswered batch."""
        self._window = 0

    def packed(self, batch: int, size: int, now: float) -> None:
        """The frame of this batch has ``size`` bytes, and is sent now."""
        known = self._batches[batch]
        known.stream.packed(known.content_bytes, size)
        self._pace.sent(batch, size, now)
        self._gate.sent(size, now)

    def answered(self, batch: int, answer: Ack | Nack, now: float) -> Settle | None:
        """The hub answered; returns what to settle.  The rest of the batch is sent again."""
        known = self._batches[batch]
        stream = known.stream
        self._pace.answered(batch, answer.held_seconds, now)
        is_away = isinstance(answer, Nack) and answer.scope == "hub"
        self._probing = self._probing and is_away
        if isinstance(answer, Ack) and self._outage is not None:
            self._recovered(now)
        offsets = stream.offsets_of(batch)
        refused = _refusals(answer, offsets)
        failure, again = (None, set[int]()) if isinstance(answer, Ack) else _failed(answer, len(offsets))
        if isinstance(answer, Ack) and answer.deferred:
            failure, again = self._defer(known, offsets, answer, now)
        done = tuple(offset for index, offset in enumerate(offsets) if index not in again)
        if failure is None:
            if stream.is_retrying and not stream.topic:
                self._recovered(now)
            checkpoint = stream.acked(batch, done, self._window, self._remaining_of_others(stream))
        else:
            checkpoint = stream.nacked(batch, failure, done, now, self._remaining_of_others(stream))
            if failure.scope == "hub":
                self._hold_back(stream)
        self._conclude(stream, now)
        if not done:
            del self._batches[batch]
            return None
        return Settle(
            batch=batch,
            queue=stream.queue,
            sent=tuple(offset for index, offset in enumerate(offsets) if index not in refused and index not in again),
            refused=tuple(refusal for index, refusal in refused.items() if index not in again),
            checkpoint=checkpoint,
        )

    def lost(self, batch: int) -> None:
        """The link ended before an answer arrived: the batch is sent again, first of its priority."""
        self._batches.pop(batch).stream.lost(batch)
        self._pace.lost(batch)
        self._outage = None

    def settled(self, batch: int) -> None:
        """The store performed the ``Settle``."""
        self._batches.pop(batch).stream.settled(batch)

    # ---- what to do next ----

    def next(self, now: float) -> Fetch | PumpWait:
        """The one thing to do now.  Answer a ``Fetch`` with ``fetched`` before calling ``next`` again."""
        if self._window == 0:
            return PumpWait()
        self._come_due(now)
        self._end_deferrals()
        until: float | None = None
        if (favoured := self._fair_share(now)) is not None:
            return favoured
        for stream in self._in_order():
            if self._outage is not None and stream.rank >= self._outage.rank and now < self._outage.until:
                return PumpWait(until=_earlier(until, self._outage.until))
            if not stream.has_more:
                continue
            match stream.state:
                case EndpointState.BACKOFF:
                    until = _earlier(until, stream.retry_at)
                case EndpointState.DRAINING:
                    if not stream.topic:
                        return PumpWait(until=until)  # nothing less urgent may pass
                case EndpointState.IDLE | EndpointState.SENDING | EndpointState.DEAD:
                    if self._must_wait(stream):
                        continue
                    if stream.state is not EndpointState.DEAD and (held := self._held(stream, now)) is not None:
                        until = _earlier(until, held.until)
                        continue
                    if stream.topic and stream.is_full:
                        continue
                    if stream.is_full or not self._may_leave(stream, now):
                        return PumpWait(until=until)  # nothing less urgent may pass
                    return self._fetch(stream, now)
        return PumpWait(until=until)

    def fetched(self, fetch: Fetch, items: Sequence[Item], now: float) -> SendBatch | Settle | None:
        """The store's answer to ``Fetch``.  Checks the time to live again, because this is the moment of sending."""
        stream = self._streams[rank(fetch.queue.priority), fetch.topic]
        page, mine = self._split_page(stream, items)
        live = stream.fetched(fetch, page, mine, now)
        if not live:
            return None
        batch = self._next_batch
        self._next_batch += 1
        offsets = tuple(item.offset for item in live)
        stream.revive(now)
        if stream.state is EndpointState.DEAD:
            self._batches[batch] = _SentBatch(stream)
            return _dead_letters(stream, batch, offsets, self._remaining_of_others(stream))
        content_bytes = sum(len(item.content) for item in live)
        self._batches[batch] = _SentBatch(stream, tuple(item.topic for item in live), content_bytes)
        size = stream.frame_bytes(content_bytes)
        self._pace.sent(batch, size, now)
        self._shares.sent(stream.rank, size, self._waiting(now))
        follows = stream.send(batch, offsets)
        return SendBatch(batch=batch, queue=stream.queue, topic=stream.topic, items=live, follows=follows)

    def not_in_batch(self, queue: QueueId, offsets: Iterable[int]) -> list[int]:
        """Those of the offsets that are in no batch."""
        of_queue = [stream for stream in self._streams.values() if stream.queue == queue]
        out = {offset for stream in of_queue for offset in stream.offsets_out} if len(of_queue) > 1 else set()
        return [offset for offset in offsets if offset not in out]

    def lane(self, queue: QueueId) -> QueueId:
        """The queue of a message that is accepted now: the live lane of its priority while that is behind."""
        stream = self._streams.get((rank(queue.priority), ""))
        if not self._has_lanes or self._window == 0 or stream is None or not stream.is_behind:
            return queue
        return QueueId(queue.endpoint, live_lane(queue.priority))

    def state(self, priority: int) -> EndpointState:
        """The state of one priority, for status and tests."""
        return self._streams[rank(priority), ""].state

    def deferred_topics(self, priority: int) -> list[str]:
        """Topics that were deferred."""
        return [topic for place, topic in self._streams if place == rank(priority) and topic]

    def troubles(self) -> dict[int, list[Trouble]]:
        """By priority: why the hub accepts nothing of it, or of some of its topics."""
        found: dict[int, list[Trouble]] = {}
        for stream in self._in_order():
            if (trouble := stream.trouble()) is not None:
                found.setdefault(stream.queue.priority, []).append(trouble)
        return found

    def held(self, now: float) -> dict[int, HeldUntil]:
        """By priority that has messages waiting: until when the gate holds them."""
        waiting = [stream for stream in self._streams.values() if stream.has_more and not stream.topic]
        found = {stream.queue.priority: self._held(stream, now) for stream in waiting}
        return {priority: held for priority, held in found.items() if held is not None}

    @property
    def bytes_in_flight(self) -> int:
        """The bytes of unanswered frames."""
        return self._pace.in_flight

    # ---- deferred topics ----

    def _defer(
        self, known: _SentBatch, offsets: tuple[int, ...], answer: Ack, now: float
    ) -> tuple[Nack | None, set[int]]:
        """What of the batch is sent again, by index; and the failure for the batch's own stream, if it is one."""
        deferred = answer.deferred_by_index(known.topics)
        failure = None
        for index, each in deferred.items():
            nack = Nack(parent_id=answer.parent_id, code=each.code, reason=each.reason, retry_after=each.retry_after)
            apart = None if known.stream.topic else self._deferred_stream(known.stream, known.topics[index])
            if apart is None:
                failure = failure or nack
            elif index == each.index:
                apart.deferred(offsets[index], nack, now)
                apart.conclude(self._policy, self._uniform, now)
        return failure, set(deferred)

    def _deferred_stream(self, stream: Stream, topic: str) -> Stream | None:
        """The stream of a deferred topic in the queue of ``stream``; None if too many are deferred."""
        found = self._streams.get((stream.rank, topic))
        if found is None and len(self.deferred_topics(stream.queue.priority)) < DEFERRED_TOPICS_MAX:
            # Begin at the first offset not done: earlier messages of the topic that were not accepted belong to it,
            # too.
            cursor = stream.remaining - 1
            found = Stream(stream.queue, stream.checkpointer, topic=topic, cursor=cursor)
            self._streams[stream.rank, topic] = found
        return found

    def _split_page(self, stream: Stream, items: Sequence[Item]) -> tuple[Sequence[Item], Sequence[Item]]:
        """How much of a page this stream goes through, and the messages of it that are its own."""
        if stream.topic:
            cursor = self._streams[stream.rank, ""].cursor
            page = [item for item in items if item.offset <= cursor]
            return page, [item for item in page if item.topic == stream.topic]
        deferred = set(self.deferred_topics(stream.queue.priority))
        if not deferred:
            return items, items
        for topic in deferred.intersection(item.topic for item in items):
            self._streams[stream.rank, topic].appended()
        return items, [item for item in items if item.topic not in deferred]

    def _end_deferrals(self) -> None:
        """Topics that have caught up rejoin the queue's stream."""
        for place, topic in [place for place in self._streams if place[1]]:
            if self._streams[place, topic].has_caught_up and not self._is_in_queue_batch(self._streams[place, topic]):
                del self._streams[place, topic]
                self._streams[place, ""].drain()

    def _is_in_queue_batch(self, stream: Stream) -> bool:
        """Whether messages of this deferred topic are in a batch of the queue's own stream."""
        queues_own = self._streams[stream.rank, ""]
        return any(known.stream is queues_own and stream.topic in known.topics for known in self._batches.values())

    def _must_wait(self, stream: Stream) -> bool:
        """Whether something must be settled before the stream may fetch more."""
        return stream.must_settle_first or bool(stream.topic and self._is_in_queue_batch(stream))

    def _remaining_of_others(self, stream: Stream) -> int | None:
        """The lowest offset that other streams of the queue have not done; None if there are no others."""
        of_queue = (each for each in self._streams.values() if each.rank == stream.rank and each is not stream)
        return min((each.remaining for each in of_queue), default=None)

    # ---- helpers ----

    def _in_order(self) -> list[Stream]:
        """The most urgent first; within a queue, deferred topics first, because their messages are older."""
        return sorted(self._streams.values(), key=lambda stream: (stream.rank, not stream.topic, stream.topic))

    def _held(self, stream: Stream, now: float) -> HeldUntil | None:
        return self._gate.held(base(stream.queue.priority), self._pace.in_flight, now)

    def _fetch(self, stream: Stream, now: float) -> Fetch:
        room = self._gate.room(base(stream.queue.priority), self._pace.in_flight, now)
        batch_bytes = self._pace.batch_bytes(now)
        return stream.fetch(batch_bytes if room is None else min(room, batch_bytes))

    def _fair_share(self, now: float) -> Fetch | None:
        """The fetch of a less urgent priority that has credit for a batch by its share."""
        if self._probing or self._outage is not None:
            return None
        for place in self._shares.due(self._pace.batch_bytes(now)):
            stream = self._streams[place, ""]
            if self._could_go(stream, now) and not stream.is_full and self._may_leave(stream, now):
                return self._fetch(stream, now)
        return None

    def _waiting(self, now: float) -> list[int]:
        """Ranks that could send now if the link had room."""
        if not self._shares.counts:
            return []
        return [place for (place, topic), stream in self._streams.items() if not topic and self._could_go(stream, now)]

    def _could_go(self, stream: Stream, now: float) -> bool:
        is_ready = stream.state in (EndpointState.IDLE, EndpointState.SENDING) and not self._must_wait(stream)
        return stream.has_more and is_ready and self._held(stream, now) is None

    def _may_leave(self, stream: Stream, now: float) -> bool:
        """Whether there is room in the hub's window and on the link."""
        in_flight = sum(other.batches for other in self._streams.values())
        if not in_flight:
            return True
        if in_flight >= self._window:
            return False
        if stream.rank < min(other.rank for other in self._streams.values() if other.batches):
            return True
        spared = 1 if self._window >= SPARING_WINDOW else 0
        return not self._probing and in_flight < self._window - spared and self._pace.has_room(now)

    def _come_due(self, now: float) -> None:
        """Ends the waits that are over, and with each the waits of all more urgent priorities."""
        if self._outage is not None and self._outage.until <= now:
            self._outage, self._probing = None, True
            due = math.inf  # all failed for the same reason: the most urgent probes whether it is over
        else:
            ranks = (each.rank for each in self._streams.values() if not each.topic and each.is_due(now))
            due = max(ranks, default=-math.inf)
        for stream in self._streams.values():
            # A deferred topic waits for its own reason.
            if stream.is_due(now) if stream.topic else stream.rank <= due:
                stream.come_due()

    def _recovered(self, now: float) -> None:
        """The hub accepts messages again: ends every wait that the failure caused."""
        self._outage = None
        for stream in self._streams.values():
            if not stream.topic:
                stream.retry_no_later_than(now)

    def _hold_back(self, stream: Stream) -> None:
        """The hub accepts nothing: this stream and less urgent ones wait until its answers arrived and it is due."""
        urgent = stream.rank if self._outage is None else min(self._outage.rank, stream.rank)
        self._outage = _Outage(urgent, math.inf)

    def _conclude(self, stream: Stream, now: float) -> None:
        """After the last outstanding answer: if one batch failed, all that were in flight failed together."""
        concluded = stream.conclude(self._policy, self._uniform, now)
        if concluded and self._outage is not None and self._outage.until == math.inf:
            self._outage = _Outage(self._outage.rank, now if stream.retry_at is None else stream.retry_at)


def doubtful(items: Sequence[Item], answer: Ack | Nack) -> set[int]:
    """Offsets of messages that may be in their topic although the answer does not say that they are stored."""
    if isinstance(answer, Nack):
        return set() if answer.code in NOT_TRIED else {item.offset for item in items}
    deferred = answer.deferred_by_index([item.topic for item in items])
    return {items[index].offset for index, each in deferred.items() if each.in_doubt}


def _failed(answer: Nack, count: int) -> tuple[Nack | None, set[int]]:
    """The failure, and the indexes in a batch of ``count`` to send again: what was neither stored nor refused."""
    again = set(range(count)).difference(answer.stored)
    if not again or (answer.permanent and count == 1):
        return None, set()
    return answer, again


def _refusals(answer: Ack | Nack, offsets: tuple[int, ...]) -> dict[int, Refusal]:
    """What the hub will never accept, by index in the batch."""
    if isinstance(answer, Nack):
        places = range(len(offsets)) if answer.permanent and len(offsets) == 1 else ()
        return {index: Refusal(offsets[index], answer.code, answer.reason) for index in places}
    return {
        each.index: Refusal(offsets[each.index], each.code, each.reason)
        for each in answer.refused
        if each.index < len(offsets)
    }


def _dead_letters(stream: Stream, batch: int, offsets: tuple[int, ...], others: int | None) -> Settle:
    """Moves messages of a dead priority to the dead letters."""
    reason = "the delivery policy allows no more retries"
    return Settle(
        batch=batch,
        queue=stream.queue,
        sent=(),
        refused=tuple(Refusal(offset, "retries_used_up", reason) for offset in offsets),
        checkpoint=stream.dead_letter(batch, offsets, others),
    )


def _earlier(one: float | None, other: float | None) -> float | None:
    """The earlier time; None means no time."""
    times = [time for time in (one, other) if time is not None and time != math.inf]
    return min(times, default=None)
