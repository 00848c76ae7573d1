"""Drives the pump: fetches from the outbox, sends on the link, and settles what the hub answered.

One loop decides and fetches; each batch in flight is a separate task, so that several may be unanswered.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, Protocol

from fairlead_edge.agent_status import STALLED_SECONDS, Stall
from fairlead_edge.errors import LinkDown, StoreFull
from fairlead_edge.outbox import envelope, traces
from fairlead_edge.outbox.delivery import UPSTREAM_POLICY
from fairlead_edge.outbox.outbox import Item, Outbox
from fairlead_edge.outbox.plan.gate import OPEN, HeldUntil, PumpGate
from fairlead_edge.outbox.pump import pump
from fairlead_edge.outbox.pump.stream import Fetch, PumpWait, SendBatch, Settle
from fairlead_edge.outbox.queues import QueueId, rank
from fairlead_edge.outbox.receipts.departure import Departure
from fairlead_edge.routes.endpoints import UPSTREAM
from fairlead_wire import errors, message
from fairlead_wire.delivery_policy import DeliveryPolicy, Uniform
from fairlead_wire.errors import Temporary
from fairlead_wire.io import logs
from fairlead_wire.io.spans import Hop, Spans
from fairlead_wire.link import codec
from fairlead_wire.traces import span_names

ANSWER_SECONDS: Final = 60.0
"""How long a connected hub may take for a batch; then the batch is sent again (it is idempotent)."""
SLOWEST_BYTES_PER_SECOND: Final = 1000.0
"""The slowest link that must work: bytes in flight get extra time at this rate, or else they would be sent twice."""
SETTLE_RETRY_SECONDS: Final = 1.0

_log = logs.get("edge.upstream")


class UpstreamLink(Protocol):
    """What the pump needs of the link; ``io.link.link.Link`` is one."""

    @property
    def upstream_window(self) -> int:
        """Batches that may be unanswered at once; 0 while no session is open."""
        ...

    def on_open(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` each time a session has opened."""
        ...

    async def send_upstream(
        self,
        stream: str,
        encoding: message.Encoding,
        content: bytes,
        *,
        topic: str = "",
        follows: bool = False,
        priority: int = 0,
        traceparent: str | None = None,
    ) -> message.Ack | message.Nack:
        """Send one batch and wait for its answer.  Raises ``LinkDown``.

        Batches of one priority are sent in the order of calls; lower priority numbers overtake those that still wait.

        ``topic``: the deferred topic whose messages are sent separately, or "".
        ``follows``: an earlier batch of the stream is unanswered; if the hub defers that, it defers this one as well.
        ``traceparent``: of the batch's span, if one is recorded.
        """
        ...


class Departed(Protocol):
    """Records departures for receipts; ``io.outbox.receipts.EdgeReceipts`` is one."""

    def of(self, items: Sequence[Item], answer: message.Ack | message.Nack) -> list[Departure]:
        """The departures of the stored messages, by this answer, to be recorded when they are settled."""
        ...

    def settled(self, queue: QueueId, items: Sequence[Item], departures: Sequence[Departure]) -> None:
        """The outcome of these messages is on disk now."""
        ...


class LinePlan(Protocol):
    """Enforces the data plan of the link; ``io.data_plan.DataPlan`` is one."""

    @property
    def gate(self) -> PumpGate:
        """The gate for the pump."""
        ...

    def update(self, in_flight: int) -> None:
        """Called before the pump decides; ``in_flight``: bytes of unanswered batches."""
        ...

    def leaving(self, in_flight: int) -> None:
        """A batch is sent now; ``in_flight`` includes it."""
        ...


class _NoReceipts:
    def of(self, items: Sequence[Item], answer: message.Ack | message.Nack) -> list[Departure]:
        return []

    def settled(self, queue: QueueId, items: Sequence[Item], departures: Sequence[Departure]) -> None:
        pass


NO_RECEIPTS: Final[Departed] = _NoReceipts()


class UpstreamPump:
    """Runs the upstream endpoint.  ``clock`` is the store's clock, ``timestamp`` gives the time as RFC 3339 text."""

    def __init__(
        self,
        outbox: Outbox,
        link: UpstreamLink,
        *,
        clock: Callable[[], float],
        timestamp: Callable[[], str],
        uniform: Uniform,
        policy: DeliveryPolicy = UPSTREAM_POLICY,
        spans: Spans | None = None,
        departed: Departed = NO_RECEIPTS,
        plan: LinePlan | None = None,
        floor_share: float = 0.0,
        live_first_share: float = 0.0,
    ) -> None:
        self._plan = plan
        self._departed = departed
        self._spans = spans
        self._outbox = outbox
        self._link = link
        self._clock = clock
        self._timestamp = timestamp
        self._pump = pump.Pump(
            UPSTREAM,
            policy=policy,
            uniform=uniform,
            gate=OPEN if plan is None else plan.gate,
            floor_share=floor_share,
            live_first_share=live_first_share,
        )
        self._wake = asyncio.Event()
        self._stalled: set[tuple[QueueId, str]] = set()
        """Queues and deferred topics that were logged as stalled."""
        self.counters: Counter[str] = Counter()
        """Since the start: batches and messages sent, acked and refused, nacks by code, batches lost with the link."""

    def appended(self, queues: Iterable[QueueId]) -> None:
        """Something was stored under these queues."""
        for queue in queues:
            if queue.endpoint == UPSTREAM:
                self._pump.appended(queue.priority)
                self._wake.set()

    def lane(self, queue: QueueId) -> QueueId:
        """The queue for a message that is accepted now."""
        return self._pump.lane(queue) if queue.endpoint == UPSTREAM else queue

    def stalls(self) -> dict[tuple[str, int], list[Stall]]:
        """Queues and deferred topics of which a connected hub accepts nothing, and why."""
        now = self._clock()
        if not self._link.upstream_window:
            return {}
        return {
            (UPSTREAM, priority): [
                Stall(
                    topic=trouble.topic,
                    for_seconds=round(now - trouble.since, 3),
                    code=trouble.code,
                    reason=trouble.reason,
                    attempts=trouble.attempts,
                    retry_in_seconds=None if trouble.retry_at is None else round(max(0.0, trouble.retry_at - now), 3),
                )
                for trouble in troubles
            ]
            for priority, troubles in self._pump.troubles().items()
        }

    def held(self) -> dict[tuple[str, int], HeldUntil]:
        """Queues that the data plan holds now."""
        return {(UPSTREAM, priority): held for priority, held in self._pump.held(self._clock()).items()}

    def _watch_stalls(self, queue: QueueId) -> None:
        """Log once when a queue, or a deferred topic of it, stalls, and once when it moves again."""
        stalls = {stall.topic: stall for stall in self.stalls().get((queue.endpoint, queue.priority), ())}
        for topic in [topic for known, topic in self._stalled if known == queue and topic not in stalls]:
            self._stalled.discard((queue, topic))
            _log.info("queue_moves", queue=str(queue), topic=topic)
        for topic, stall in stalls.items():
            if (queue, topic) in self._stalled or stall.for_seconds < STALLED_SECONDS:
                continue
            self._stalled.add((queue, topic))
            self.counters["stalls"] += 1
            _log.error(
                "queue_stalled",
                queue=str(queue),
                topic=topic,
                seconds=stall.for_seconds,
                code=stall.code,
                reason=stall.reason,
                remedy="nothing is lost; once the cause given in the reason is corrected, it continues by itself",
            )

    async def run(self) -> None:
        """Until cancelled.  Raises ``StoreFailed``: the program must end then."""
        for queue in await self._outbox.queues():
            if queue.endpoint == UPSTREAM:
                self._pump.found(queue, await self._outbox.checkpoint(queue))
        self._link.on_open(self._opened)
        self._opened()
        async with asyncio.TaskGroup() as batches:
            while True:
                self._wake.clear()
                if self._plan is not None:
                    self._plan.update(self._pump.bytes_in_flight)
                step = self._pump.next(self._clock())
                if isinstance(step, PumpWait):
                    await self._wait(step)
                else:
                    await self._fetch(step, batches)

    def _opened(self) -> None:
        if self._link.upstream_window:
            self._pump.link_up(self._link.upstream_window)
            self._wake.set()

    async def _wait(self, wait: PumpWait) -> None:
        seconds = None if wait.until is None else max(0.0, wait.until - self._clock())
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass  # a priority that backed off came due

    async def _fetch(self, fetch: Fetch, batches: asyncio.TaskGroup) -> None:
        items = await self._outbox.fetch(
            fetch.queue,
            after=fetch.after,
            now=self._clock(),
            messages_max=fetch.messages_max,
            bytes_max=fetch.bytes_max,
            leaving=True,
        )
        wanted = self._pump.fetched(fetch, items, self._clock())
        if not isinstance(wanted, Settle):
            leaves = {item.offset for item in wanted.items} if wanted else set()
            stays = [item.offset for item in items if item.offset not in leaves]
            self._outbox.in_flight.release(fetch.queue, self._pump.not_in_batch(fetch.queue, stays))
        match wanted:
            case SendBatch() as send:
                encoding, content = codec.pack(envelope.upstream(send.queue, send.items))
                self._pump.packed(send.batch, len(content), self._clock())
                if self._plan is not None:
                    self._plan.leaving(self._pump.bytes_in_flight)
                batches.create_task(self._deliver(send, encoding, content))
            case Settle() as settle:
                await self._settle(settle, items)
            case None:
                pass

    async def _deliver(self, send: SendBatch, encoding: message.Encoding, content: bytes) -> None:
        hop = self._hop(send) if self._spans is not None else None
        if hop is None:
            await self._send(send, encoding, content, None)
            return
        with hop.named_in_logs():
            answer = ""
            try:
                answer = await self._send(send, encoding, content, str(hop.trace))
            finally:
                hop.end("" if answer == "ack" else answer or "the agent stopped", {span_names.ANSWER: answer})

    def _hop(self, send: SendBatch) -> Hop | None:
        """The span of a batch with sampled traces; None for any other."""
        assert self._spans is not None
        origins, late = traces.leaving(send.items, self._clock())
        if not origins:
            return None
        named = span_names.of_messages(len(send.items), send.items[0].topic, operation="send", stream=str(send.queue))
        return self._spans.hop(span_names.UPSTREAM_BATCH, origins, kind="client", late=late, attributes=named)

    async def _send(self, send: SendBatch, encoding: message.Encoding, content: bytes, traceparent: str | None) -> str:
        """Send the batch; returns the outcome in a word: "ack", or the code of the refusal."""
        patience = ANSWER_SECONDS + self._pump.bytes_in_flight / SLOWEST_BYTES_PER_SECOND
        self.counters["batches"] += 1
        self.counters["messages"] += len(send.items)
        self.counters["bytes"] += len(content)
        try:
            async with asyncio.timeout(patience):
                answer = await self._link.send_upstream(
                    str(send.queue),
                    encoding,
                    content,
                    topic=send.topic,
                    follows=send.follows,
                    priority=rank(send.queue.priority),
                    traceparent=traceparent,
                )
        except LinkDown:
            self.counters["batches_lost"] += 1
            offsets = [item.offset for item in send.items]
            self._outbox.in_flight.release(send.queue, offsets, in_doubt=True)
            self._pump.lost(send.batch)
            if not self._link.upstream_window:
                self._pump.link_down()
            self._wake.set()
            return "link_down"
        except TimeoutError:
            answer = message.Nack(parent_id=0, code="timeout", reason=f"no answer within {patience:.0f} s")
        except Exception as error:  # noqa: BLE001 - no error of the link may end the agent: named, counted, tried again
            self.counters["link_errors"] += 1
            _log.error("link_error", **logs.describe_error(error), remedy="report it; the batch is sent again")
            answer = message.Nack(parent_id=0, code="link_error", reason=errors.described(error))
        settle = self._pump.answered(send.batch, answer, self._clock())
        done = {*settle.sent, *(refusal.offset for refusal in settle.refused)} if settle is not None else set()
        self._release(send, answer, done)
        if isinstance(answer, message.Nack):
            self.counters[f"nack_{answer.code}"] += 1
            _log.warning(
                "batch_refused",
                queue=str(send.queue),
                messages=len(send.items),
                code=answer.code,
                reason=answer.reason,
                permanent=answer.permanent,
            )
        else:
            for each in answer.deferred:
                self.counters["topics_deferred"] += 1
                topic = send.items[each.index].topic if each.index < len(send.items) else ""
                _log.warning("topic_deferred", queue=str(send.queue), topic=topic, code=each.code, reason=each.reason)
        self._watch_stalls(send.queue)
        self._wake.set()
        if settle is not None:
            departures = self._departed.of(send.items, answer)
            await self._settle(settle, [item for item in send.items if item.offset in done], departures)
        return "ack" if isinstance(answer, message.Ack) else answer.code

    def _release(self, send: SendBatch, answer: message.Ack | message.Nack, done: Collection[int]) -> None:
        """Release what is not done, which is sent again unless it expires; some of it may be in its topic (in
        doubt)."""
        if len(done) == len(send.items):
            return
        doubtful = pump.doubtful(send.items, answer)
        again = {item.offset for item in send.items}.difference(done)
        self._outbox.in_flight.release(send.queue, again - doubtful)
        self._outbox.in_flight.release(send.queue, again & doubtful, in_doubt=True)

    async def _settle(self, settle: Settle, items: Sequence[Item], departures: Sequence[Departure] = ()) -> None:
        for refusal in settle.refused:
            _log.warning(
                "dead_lettered",
                queue=str(settle.queue),
                sequence=refusal.offset,
                code=refusal.code,
                reason=refusal.reason,
            )
        while True:
            try:
                await self._outbox.settle(
                    settle.queue,
                    sent=settle.sent,
                    refused=settle.refused,
                    checkpoint=settle.checkpoint,
                    at=self._timestamp(),
                    departures=departures,
                )
                break
            except Temporary as error:  # a full or slow disk: the hub has the messages, only our record of it is late
                _log.warning("settle_delayed", queue=str(settle.queue), reason=str(error))
                if isinstance(error, StoreFull) and departures:
                    # Sent messages must free their space, even if their receipts cannot be stored.
                    self.counters["receipts_lost"] += len(settle.sent)
                    departures = ()
                    continue
                await asyncio.sleep(SETTLE_RETRY_SECONDS)
        self.counters["acked"] += len(settle.sent)
        self.counters["refused"] += len(settle.refused)
        self._pump.settled(settle.batch)
        self._departed.settled(settle.queue, items, departures)
        self._wake.set()
