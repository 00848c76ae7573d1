"""Upstream batches into messaging, and the answer back to the edge: an ack only after messaging said 200.

Batches of one stream are published one after the other, streams beside each other.  A topic that takes nothing now
(over the quota of its namespace, forbidden, in a state that rules it out) is deferred alone, with the time to come
back.  Messaging down or not configured: a temporary nack, also for what followed in that stream
(``upstream.Order``).  Nothing is kept here and nothing is lost.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Literal, Protocol

import msgspec

from fairlead_hub.cluster.sync_rule import DEFAULT_TOPIC
from fairlead_hub.hub import Hub
from fairlead_hub.io.io_counts import IoCounts
from fairlead_hub.session_ref import SessionRef
from fairlead_hub.upstream import publish_batch
from fairlead_messaging.api.error_codes import TOPIC_NOT_FOUND
from fairlead_messaging.api.requests import Producer
from fairlead_messaging.api.responses import Placed
from fairlead_messaging.client.errors import Busy, Denied, Failed, Fenced, NoAnswer, NotAllowed, Unreachable
from fairlead_wire import message
from fairlead_wire.errors import Malformed, Permanent, RemoteError, Temporary
from fairlead_wire.io import logs
from fairlead_wire.io.spans import Hop, Spans
from fairlead_wire.log_limiter import LogLimiter
from fairlead_wire.traces import span_names, trace

NOT_NOW_SECONDS = 5.0
STARTING_SECONDS = 1.0
AWAY_SECONDS = 1.0
"""How long messaging is taken for away after it was found so; then a batch finds out."""
AWAY_STATUSES = frozenset({502, 503, 504, 507})
"""Answers "not now" that are not about one topic or producer."""
QUOTA_STATUS = 429
CONFLICT_STATUS = 409
UNAUTHENTICATED_STATUS = 401
"""Who the hub is is not known there: that is about every topic."""
BATCH_SECONDS_MAX = 25.0
"""Afterwards no further topic of a batch is tried: the edge waits a minute for its answer, and one may take half."""
CREATED_MAX = 2
"""Attempts at a topic that is missing; it is created in between."""
REFUSED_LOG_SECONDS = 60.0
STREAMS_MAX = 1024
"""Streams of one session that have something to remember; an edge has one for each priority, and one more for each
deferred topic of a priority."""
_log = logs.get("hub.upstream")


class PublishClient(Protocol):
    """What is used of ``AsyncClient``."""

    async def create_topic(self, namespace: str, name: str) -> bool: ...

    async def publish(
        self,
        namespace: str,
        name: str,
        payloads: list[bytes],
        *,
        producer: Producer | None = None,
        traceparent: str | None = None,
    ) -> Placed: ...


class _TopicRefused(Temporary):
    """Messaging says that this topic can never be."""


class _StreamQueue:
    """One stream of one session: what waits to be published, and whether it may be."""

    __slots__ = ("batches", "is_worked_on", "order")

    def __init__(self) -> None:
        self.batches: deque[tuple[message.Upstream, bytes, float]] = deque()
        """Header, content, and when it came (the loop's clock)."""
        self.order = publish_batch.Order()
        self.is_worked_on = False


class UpstreamPublisher:
    """One chain of batches for each session and stream."""

    def __init__(
        self,
        hub: Hub,
        messaging: PublishClient | None,
        *,
        window: int,
        counts: IoCounts | None = None,
        spans: Spans | None = None,
    ) -> None:
        self._spans = spans
        self.counts = counts if counts is not None else IoCounts()
        self._hub, self._messaging, self._window = hub, messaging, window
        self._chains: dict[SessionRef, dict[tuple[str, str], _StreamQueue]] = {}
        """By session, stream and topic ("": those that go together)."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusals = LogLimiter(REFUSED_LOG_SECONDS)
        self._ready: set[str] = set()
        """Topics known to exist."""
        self._away_until = float("-inf")
        """Messaging was found away: until then no batch is tried, so that no less urgent one is the first."""
        self._away_reason = ""

    def accept(self, session: SessionRef, header: message.Upstream, content: bytes) -> None:
        """Raises ``Malformed`` when the edge sends more at once than its window allows."""
        chains = self._chains.setdefault(session, {})
        chain = chains.get((header.stream, header.topic))
        if chain is None:
            if len(chains) >= STREAMS_MAX:
                raise Malformed(f"more than {STREAMS_MAX} streams in one session")
            chain = chains[header.stream, header.topic] = _StreamQueue()
        if len(chain.batches) > self._window:
            raise Malformed(f"more than {self._window} upstream batches at once")
        chain.batches.append((header, content, asyncio.get_running_loop().time()))
        if not chain.is_worked_on:
            chain.is_worked_on = True
            task = asyncio.get_running_loop().create_task(self._work(session, header.stream, header.topic, chain))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def forget(self, session: SessionRef) -> None:
        """The session ended: what was not answered, the edge sends again."""
        for chain in self._chains.pop(session, {}).values():
            chain.batches.clear()

    async def _work(self, session: SessionRef, stream: str, topic: str, chain: _StreamQueue) -> None:
        try:
            while chain.batches:
                header, content, came_at = chain.batches[0]
                answer: message.Ack | message.Nack | None = None
                try:
                    answer = await self._traced(session, chain.order, header, content, came_at)
                except Malformed as error:
                    self.counts.broke_protocol()
                    refusal = message.Refuse(code="protocol", reason=str(error), retry_after=1.0)
                    self._hub.sessions.refuse(session, refusal)
                except Exception as error:  # noqa: BLE001 - a defect must cost this batch a retry, not the stream its life
                    remedy = "report it; the node sends the batch again"
                    details = logs.describe_error(error)
                    _log.error("upstream_error", node=session.node, stream=header.stream, remedy=remedy, **details)
                    reason = f"the hub failed: {details['error']}"
                    answer = self._not_now(header, "hub_error", reason, NOT_NOW_SECONDS)
                    chain.order.answered(answer)
                if chain.batches:
                    chain.batches.popleft()
                if answer is not None:
                    held = asyncio.get_running_loop().time() - came_at
                    answer = msgspec.structs.replace(answer, held_seconds=round(held, 3))
                    self._hub.sessions.say(session, answer)
        finally:
            chain.is_worked_on = False
            if topic and not chain.batches and chain.order.is_idle:
                self._chains.get(session, {}).pop((stream, topic), None)  # topics come and go

    async def _traced(
        self,
        session: SessionRef,
        order: publish_batch.Order,
        header: message.Upstream,
        content: bytes,
        came_at: float,
    ) -> message.Ack | message.Nack:
        hop = self._hop(session, header, came_at) if header.traceparent is not None else None
        if hop is None:
            return await self._judged(session, order, header, content)
        code = "hub_error"
        with hop.named_in_logs():
            try:
                answer = await self._judged(session, order, header, content, str(hop.trace))
                code = "ack" if isinstance(answer, message.Ack) else answer.code
            finally:
                hop.end("" if code == "ack" else code, {span_names.ANSWER: code})
        return answer

    def _hop(self, session: SessionRef, header: message.Upstream, came_at: float) -> Hop | None:
        """The span of a batch whose node records one, from its arrival on."""
        origin = trace.sampled(header.traceparent)
        if self._spans is None or origin is None:
            return None
        waited = asyncio.get_running_loop().time() - came_at
        named = {span_names.NODE: session.node, span_names.STREAM: header.stream}
        start_ns = time.time_ns() - round(waited * 1e9)
        return self._spans.hop(span_names.UPSTREAM_BATCH, [origin], kind="server", start_ns=start_ns, attributes=named)

    async def _judged(
        self,
        session: SessionRef,
        order: publish_batch.Order,
        header: message.Upstream,
        content: bytes,
        traceparent: str | None = None,
    ) -> message.Ack | message.Nack:
        behind = order.judge(header)
        if behind is not None:
            self.counts.put_off(behind.code)
            return behind
        answer = await self._answer(session, order, header, content, traceparent)
        order.answered(answer)
        return answer

    async def _answer(
        self,
        session: SessionRef,
        order: publish_batch.Order,
        header: message.Upstream,
        content: bytes,
        traceparent: str | None,
    ) -> message.Ack | message.Nack:
        if self._messaging is None:
            reason = "this hub has no messaging service"
            return self._not_now(header, "no_messaging", reason, NOT_NOW_SECONDS, scope="hub")
        waiting = self._hub.view.topics_unknown()
        if waiting:
            return self._not_now(header, "starting", waiting, STARTING_SECONDS, scope="hub")
        away_seconds = self._away_until - asyncio.get_running_loop().time()
        if away_seconds > 0:
            return self._not_now(header, "messaging_away", self._away_reason, away_seconds, scope="hub")
        plan = publish_batch.plan(session.node, header, content, self._hub.view.topics(session.node))
        publishing = publish_batch.Publishing(header, plan, order)
        put_off: message.Nack | None = None
        began = asyncio.get_running_loop().time()
        is_first = True
        while put_off is None and (parcel := publishing.next()) is not None:
            if not is_first and asyncio.get_running_loop().time() - began >= BATCH_SECONDS_MAX:
                reason = f"other topics of its batch took more than {BATCH_SECONDS_MAX:g} s"
                publishing.defer(parcel.topic, "messaging_slow", reason, STARTING_SECONDS)
                continue
            put_off = await self._publish(header, publishing, parcel, traceparent)
            is_first = False
        self.counts.stored(publishing.stored_count)
        for item in publishing.refused:
            self.counts.refused(item.code)
        if publishing.refused:
            self._hub.sessions.messages_refused(session.node, publishing.refused, asyncio.get_running_loop().time())
        if put_off is not None:
            return publishing.put_off(put_off)
        for code in publishing.deferred_codes:
            self.counts.put_off(code)
        return publishing.answer()

    async def _publish(
        self,
        header: message.Upstream,
        publishing: publish_batch.Publishing,
        parcel: publish_batch.PublishBatch,
        traceparent: str | None,
    ) -> message.Nack | None:
        """Publish one parcel and note what came of it; the answer where nothing of the batch would be taken now."""
        try:
            published = await self._stored(parcel, traceparent)
        except NotAllowed as error:
            # What the hub may not do is no fault of the message: dropped for it, all that the nodes say would be lost.
            self._log_denied(parcel.topic, error)
            if error.status == UNAUTHENTICATED_STATUS:
                return self._not_now(header, "messaging_denied", f"messaging refuses the hub: {error}", NOT_NOW_SECONDS)
            publishing.defer(parcel.topic, "messaging_denied", f"messaging refuses the hub: {error}", NOT_NOW_SECONDS)
        except Permanent as error:
            if isinstance(error, Denied) and error.status == CONFLICT_STATUS and not isinstance(error, Fenced):
                publishing.defer(parcel.topic, "topic_conflict", str(error), NOT_NOW_SECONDS)
            else:
                publishing.never(parcel, error.code, str(error))
        except _TopicRefused as error:
            publishing.defer(parcel.topic, "topic_refused", str(error), NOT_NOW_SECONDS)
        except Temporary as error:
            seconds = error.retry_after_seconds or STARTING_SECONDS
            if await self._is_away(error):
                self._away_until = asyncio.get_running_loop().time() + min(seconds, AWAY_SECONDS)
                self._away_reason = str(error)
                return self._not_now(header, "messaging_away", str(error), seconds, scope="hub")
            is_quota = isinstance(error, Busy) and error.status == QUOTA_STATUS
            code = "over_quota" if is_quota else "messaging_unavailable"
            in_doubt = isinstance(error, Failed) and error.in_doubt
            publishing.defer(parcel.topic, code, str(error), seconds, in_doubt=in_doubt)
        except RemoteError as error:  # of what answers in messaging's place, not of the node
            return self._not_now(header, "messaging_unavailable", str(error), NOT_NOW_SECONDS)
        else:
            self.counts.stored_before(len(published.known))
            publishing.stored(parcel, published)
        return None

    def _log_denied(self, topic: str, error: NotAllowed) -> None:
        if (times := self._refusals.due(topic, asyncio.get_running_loop().time())) is not None:
            remedy = "grant the hub's certificate publish and create in messaging's [[access]]"
            _log.error("messaging_refuses_hub", topic=topic, reason=str(error), remedy=remedy, times=times)

    async def _is_away(self, error: Temporary) -> bool:
        """Would messaging take nothing at all?  Or is it this topic, or something in this batch?

        Where no answer came the service is asked something small: a batch it chokes on must not stop all others.
        """
        assert self._messaging is not None
        if isinstance(error, Busy):
            return error.status in AWAY_STATUSES
        if not isinstance(error, NoAnswer):
            return isinstance(error, Unreachable)
        namespace, _, name = DEFAULT_TOPIC.partition("/")
        try:
            await self._messaging.create_topic(namespace, name)
        except Temporary:
            return True
        except (Permanent, RemoteError):
            pass  # it answers
        return False

    def _not_now(
        self,
        header: message.Upstream,
        code: str,
        reason: str,
        seconds: float,
        *,
        scope: Literal["stream", "hub"] = "stream",
    ) -> message.Nack:
        self.counts.put_off(code)
        return message.Nack(parent_id=header.id, code=code, reason=reason, retry_after=seconds, scope=scope)

    async def _stored(self, parcel: publish_batch.PublishBatch, traceparent: str | None) -> Placed:
        """Publish it; a topic that is not there is created.  Raises ``Temporary``, ``Permanent``, ``RemoteError``."""
        assert self._messaging is not None
        namespace, _, name = parcel.topic.partition("/")
        producer = Producer(id=parcel.producer, epoch=parcel.epoch, sequences=parcel.sequences)
        for _ in range(CREATED_MAX):
            try:
                return await self._messaging.publish(
                    namespace, name, parcel.payloads, producer=producer, traceparent=traceparent
                )
            except Permanent as error:
                if error.code != TOPIC_NOT_FOUND:
                    raise
                self._ready.discard(parcel.topic)
                await self._create(parcel.topic)
        raise Temporary(f"topic {parcel.topic} was created and is missing again", retry_after_seconds=STARTING_SECONDS)

    async def ensure_topics(self) -> None:
        """Create what EdgeRoutes name; called again when they change.  Failures are tried again at the next call."""
        if self._messaging is None:
            return
        for topic in self._hub.view.all_topics() - self._ready:
            try:
                await self._create(topic)
            except _TopicRefused:
                continue  # it harms itself alone; the others are created
            except Temporary as error:
                _log.warning("topic_delayed", topic=topic, reason=str(error))
                if isinstance(error, Busy) and error.status == QUOTA_STATUS:
                    continue  # of its namespace alone
                return

    async def _create(self, topic: str) -> None:
        """Raises ``Temporary``; a topic that can never be created is reported; its messages are not dropped."""
        assert self._messaging is not None
        namespace, _, name = topic.partition("/")
        try:
            await self._messaging.create_topic(namespace, name)
        except Permanent as error:
            _log.warning("topic_refused", topic=topic, reason=str(error))
            text = f"topic {topic} cannot be created: {error}"
            raise _TopicRefused(text, retry_after_seconds=NOT_NOW_SECONDS) from None
        self._ready.add(topic)
