"""Publishes upstream batches to messaging and answers the edge: an ack only after messaging answered 200.

Batches of one stream are published one after the other, streams in parallel.  A topic that accepts nothing now (its
namespace is over quota, access is denied, its state rules it out) is deferred alone, with a time to retry.  If
messaging is down or not configured: a temporary nack, also for the batches that follow in that stream
(``publish_batch.Order``). Nothing is kept here and nothing is lost.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Literal, Protocol

import msgspec

from fairlead_hub import publish_batch
from fairlead_hub.cluster.sync_rule import DEFAULT_TOPIC
from fairlead_hub.hub import Hub
from fairlead_hub.io.io_counts import IoCounts
from fairlead_hub.session_ref import SessionRef
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
"""How long messaging counts as away after it was found to be; then a batch tries again."""
AWAY_STATUSES = frozenset({502, 503, 504, 507})
""""Not now" answers that are not about one topic or producer."""
QUOTA_STATUS = 429
CONFLICT_STATUS = 409
UNAUTHENTICATED_STATUS = 401
"""The hub's identity is unknown there, which concerns every topic."""
BATCH_SECONDS_MAX = 25.0
"""After this time no further topic of a batch is tried: the edge waits a minute, and one topic may take half of
that."""
CREATED_MAX = 2
"""Attempts for a topic that is missing; it is created in between."""
REFUSED_LOG_SECONDS = 60.0
STREAMS_MAX = 1024
"""Streams of one session with state; an edge has one per priority, and one more per deferred topic of a priority."""
_log = logs.get("hub.upstream")


class PublishClient(Protocol):
    """The part of ``AsyncClient`` that is used."""

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
    """Messaging says that this topic can never exist."""


class _StreamQueue:
    """One stream of one session: the batches to publish, and whether they may be."""

    __slots__ = ("batches", "is_worked_on", "order")

    def __init__(self) -> None:
        self.batches: deque[tuple[message.Upstream, bytes, float]] = deque()
        """Header, content, and arrival time (the loop's clock)."""
        self.order = publish_batch.Order()
        self.is_worked_on = False


class UpstreamPublisher:
    """One queue of batches per session and stream."""

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
        """By session, stream and topic ("": batches with several topics)."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusals = LogLimiter(REFUSED_LOG_SECONDS)
        self._ready: set[str] = set()
        """Topics known to exist."""
        self._away_until = float("-inf")
        """Messaging was found to be away: no batch is tried before, so that a less urgent one is not first."""
        self._away_reason = ""

    def accept(self, session: SessionRef, header: message.Upstream, content: bytes) -> None:
        """Raises ``Malformed`` if the edge sends more at once than its window allows."""
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
        """The session ended: the edge sends again what was not answered."""
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
        while put_off is None and (topic_batch := publishing.next()) is not None:
            if not is_first and asyncio.get_running_loop().time() - began >= BATCH_SECONDS_MAX:
                reason = f"other topics of its batch took more than {BATCH_SECONDS_MAX:g} s"
                publishing.defer(topic_batch.topic, "messaging_slow", reason, STARTING_SECONDS)
                continue
            put_off = await self._publish(header, publishing, topic_batch, traceparent)
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
        topic_batch: publish_batch.PublishBatch,
        traceparent: str | None,
    ) -> message.Nack | None:
        """Publish part of a batch and record the result.

        Returns an answer if nothing of the batch would be accepted now.
        """
        try:
            published = await self._stored(topic_batch, traceparent)
        except NotAllowed as error:
            # A right that the hub lacks is no fault of the message: dropping messages for it would lose everything
            # nodes send.
            self._log_denied(topic_batch.topic, error)
            if error.status == UNAUTHENTICATED_STATUS:
                return self._not_now(header, "messaging_denied", f"messaging refuses the hub: {error}", NOT_NOW_SECONDS)
            reason = f"messaging refuses the hub: {error}"
            publishing.defer(topic_batch.topic, "messaging_denied", reason, NOT_NOW_SECONDS)
        except Permanent as error:
            if isinstance(error, Denied) and error.status == CONFLICT_STATUS and not isinstance(error, Fenced):
                publishing.defer(topic_batch.topic, "topic_conflict", str(error), NOT_NOW_SECONDS)
            else:
                publishing.never(topic_batch, error.code, str(error))
        except _TopicRefused as error:
            publishing.defer(topic_batch.topic, "topic_refused", str(error), NOT_NOW_SECONDS)
        except Temporary as error:
            seconds = error.retry_after_seconds or STARTING_SECONDS
            if await self._is_away(error):
                self._away_until = asyncio.get_running_loop().time() + min(seconds, AWAY_SECONDS)
                self._away_reason = str(error)
                return self._not_now(header, "messaging_away", str(error), seconds, scope="hub")
            is_quota = isinstance(error, Busy) and error.status == QUOTA_STATUS
            code = "over_quota" if is_quota else "messaging_unavailable"
            in_doubt = isinstance(error, Failed) and error.in_doubt
            publishing.defer(topic_batch.topic, code, str(error), seconds, in_doubt=in_doubt)
        except RemoteError as error:  # an error of whatever answers in messaging's place, not of the node
            return self._not_now(header, "messaging_unavailable", str(error), NOT_NOW_SECONDS)
        else:
            self.counts.stored_before(len(published.known))
            publishing.stored(topic_batch, published)
        return None

    def _log_denied(self, topic: str, error: NotAllowed) -> None:
        if (times := self._refusals.due(topic, asyncio.get_running_loop().time())) is not None:
            remedy = "grant the hub's certificate publish and create in messaging's [[access]]"
            _log.error("messaging_refuses_hub", topic=topic, reason=str(error), remedy=remedy, times=times)

    async def _is_away(self, error: Temporary) -> bool:
        """Whether messaging accepts nothing at all, or only this topic or something in this batch is the problem.

        If no answer came, the service is sent a small query: a batch that it cannot handle must not stop all others.
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

    async def _stored(self, topic_batch: publish_batch.PublishBatch, traceparent: str | None) -> Placed:
        """Publish it, creating a missing topic.  Raises ``Temporary``, ``Permanent``, ``RemoteError``."""
        assert self._messaging is not None
        namespace, _, name = topic_batch.topic.partition("/")
        producer = Producer(id=topic_batch.producer, epoch=topic_batch.epoch, sequences=topic_batch.sequences)
        for _ in range(CREATED_MAX):
            try:
                return await self._messaging.publish(
                    namespace, name, topic_batch.payloads, producer=producer, traceparent=traceparent
                )
            except Permanent as error:
                if error.code != TOPIC_NOT_FOUND:
                    raise
                self._ready.discard(topic_batch.topic)
                await self._create(topic_batch.topic)
        missing = f"topic {topic_batch.topic} was created and is missing again"
        raise Temporary(missing, retry_after_seconds=STARTING_SECONDS)

    async def ensure_topics(self) -> None:
        """Create the topics that EdgeRoutes name; call again when they change.

        Failures are retried at the next call.
        """
        if self._messaging is None:
            return
        for topic in self._hub.view.all_topics() - self._ready:
            try:
                await self._create(topic)
            except _TopicRefused:
                continue  # affects only itself; the others are created
            except Temporary as error:
                _log.warning("topic_delayed", topic=topic, reason=str(error))
                if isinstance(error, Busy) and error.status == QUOTA_STATUS:
                    continue  # affects only its namespace
                return

    async def _create(self, topic: str) -> None:
        """Raises ``Temporary``; a topic that can never be created is reported, and its messages are not dropped."""
        assert self._messaging is not None
        namespace, _, name = topic.partition("/")
        try:
            await self._messaging.create_topic(namespace, name)
        except Permanent as error:
            _log.warning("topic_refused", topic=topic, reason=str(error))
            text = f"topic {topic} cannot be created: {error}"
            raise _TopicRefused(text, retry_after_seconds=NOT_NOW_SECONDS) from None
        self._ready.add(topic)
