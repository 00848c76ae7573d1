"""Accepts messages from producers, routes them, and answers once they are on disk."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from fairlead_edge.errors import StoreFull
from fairlead_edge.outbox import outbox, publishing, traces
from fairlead_edge.outbox.authorship import ANY_PROGRAM, Author
from fairlead_edge.outbox.outbox import IdempotencyKey, Outbox
from fairlead_edge.outbox.queues import QueueId
from fairlead_edge.outbox.receipts import marks
from fairlead_wire import errors
from fairlead_wire.errors import FairleadError, Temporary
from fairlead_wire.io.spans import Spans
from fairlead_wire.traces import span_names
from fairlead_wire.traces.trace import TRACEPARENT, TRACESTATE, Trace

PENDING_BYTES_MAX: Final = 64 * 1024 * 1024
"""The most bytes of requests in progress; further requests are asked to retry."""
BUSY_RETRY_SECONDS: Final = 1.0
NOT_READY_RETRY_SECONDS: Final = 5.0
NO_HEADERS: Final[Mapping[str, str]] = {}


NO_ROUTES: Final = "no routes yet: no EdgeRoutes object selects this node, or the hub has not delivered it yet"


class NotReady(Temporary):
    """No usable routes have ever arrived at this node, so no message can be routed."""


class PublishAnswer(msgspec.Struct, frozen=True):
    """The refusal (when no message was accepted), the answer's body, and the trace where one is recorded."""

    refusal: publishing.RefusalReason | None
    body: bytes
    trace: Trace | None = None


class Gathered(msgspec.Struct, frozen=True):
    """Messages of one author: ``module`` is the authenticated one, ``ttl_seconds`` limits each message's time to live
    (None: as its routes say)."""

    module: str
    submissions: Sequence[publishing.Submission | publishing.RefusalReason]
    ttl_seconds: Sequence[float | None]


class MessagePublisher:
    """One per agent.  ``new_id`` makes ids, ``timestamp`` gives RFC 3339 UTC, ``make_room`` sweeps a full store; if
    that
    does not help and ``evict`` is set, less urgent messages are evicted.  ``lane`` is as in ``publishing.plan``.

    There is no router until the first routes arrive; ``use_router`` replaces it for later requests.
    """

    def __init__(
        self,
        outbox: Outbox,
        *,
        clock: Callable[[], float],
        timestamp: Callable[[], str],
        new_id: Callable[[], str],
        make_room: Callable[[], Awaitable[int]],
        appended: Callable[[Iterable[QueueId]], None],
        evict: bool = False,
        spans: Spans | None = None,
        lane: Callable[[QueueId], QueueId] = lambda queue: queue,
    ) -> None:
        self._spans = spans
        self._lane = lane
        self._outbox = outbox
        self._clock = clock
        self._timestamp = timestamp
        self._new_id = new_id
        self._make_room = make_room
        self._appended = appended
        self._evict = evict
        self._pending_bytes = 0
        self._in_work: set[asyncio.Task[PublishAnswer]] = set()
        self._router: publishing.MessageRouter | None = None
        self._closed: Temporary | None = None
        self._unusable = ""
        """If there is no router, what is wrong with the routes that arrived."""
        self.counters: Counter[str] = Counter()
        """Since the start: ``received``, ``accepted``, ``repeated``, ``no_route``, ``held`` for a refused route,
        ``routed_again`` (of those held), ``refused_<code>``."""

    def use_router(self, router: publishing.MessageRouter | None, unusable: str = "") -> None:
        """Route messages by this from now on; None: requests are refused as not ready, with the reason."""
        self._router = router
        self._unusable = unusable

    @property
    def in_work(self) -> int:
        """The number of requests from before ``close`` that are not answered yet."""
        return len(self._in_work)

    def close(self, reason: Temporary) -> None:
        """Refuse new requests with ``reason``, until ``open``."""
        self._closed = reason

    def open(self) -> None:
        """Accept requests again."""
        self._closed = None

    def refuse_if_closed(self) -> None:
        """Raises the reason given to ``close``."""
        if self._closed is not None:
            raise self._closed

    async def publish(
        self,
        content: bytes,
        key: str | None = None,
        author: Author = ANY_PROGRAM,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> PublishAnswer:
        """Store the messages of a request.  ``headers`` are those of the request, for its trace.

        Raises ``RequestRefused``, ``KeyReused``, ``NotReady``, ``StoreFull``, ``StoreFailed``, ``Temporary``.
        """
        self.refuse_if_closed()
        if self._pending_bytes + len(content) > PENDING_BYTES_MAX:
            raise Temporary("too many requests are being stored", retry_after_seconds=BUSY_RETRY_SECONDS)
        # Even if the producer disconnects, the pump must learn what was stored.
        task = asyncio.create_task(self._publish(content, key, author, headers))
        self._in_work.add(task)
        task.add_done_callback(self._worked)
        return await asyncio.shield(task)

    def _worked(self, task: asyncio.Task[PublishAnswer]) -> None:
        self._in_work.discard(task)
        if not task.cancelled():
            task.exception()  # mark it as retrieved: the caller got it, or is gone

    async def _publish(
        self, content: bytes, key: str | None, author: Author, headers: Mapping[str, str]
    ) -> PublishAnswer:
        self._pending_bytes += len(content)
        try:
            return await self._publish_now(content, key, author, headers)
        finally:
            self._pending_bytes -= len(content)

    async def store_gathered(self, gathered: Sequence[Gathered]) -> list[publishing.Accepted | publishing.NotAccepted]:
        """Store signed messages of several authors in one step: all that are not refused, or none at all.

        Returns the outcome of each, in order.  Raises ``NotReady``, ``StoreFull``, ``StoreFailed``, ``Temporary``.
        """
        self.refuse_if_closed()
        plan, _, _ = await self._store(gathered)
        return list(plan.results)

    def _usable_router(self) -> publishing.MessageRouter:
        if self._router is not None:
            return self._router
        reason = f"no usable routes: {self._unusable}" if self._unusable else NO_ROUTES
        raise NotReady(reason, retry_after_seconds=NOT_READY_RETRY_SECONDS)

    async def refuse_for_good(self, refused: Sequence[outbox.RefusedMessage]) -> None:
        """Store these durably as dead letters.  Raises ``StoreFull``, ``StoreFailed``, ``Temporary``."""
        await self._outbox.refuse(refused, now=self._clock(), at=self._timestamp())

    async def _publish_now(
        self, content: bytes, key: str | None, author: Author, headers: Mapping[str, str]
    ) -> PublishAnswer:
        if key is not None:
            key = author.own_key(publishing.check_key(key))
        submissions = author.sign(publishing.parse(content, default_source=author.default_source))
        signed = Gathered(author.module, submissions, [None] * len(submissions))
        digest = publishing.digest(content) if key is not None else b""
        plan, first, trace = await self._store([signed], key=key, digest=digest, headers=headers)
        return PublishAnswer(plan.refusal, plan.answer(), trace) if first is None else PublishAnswer(None, first, trace)

    async def _store(
        self,
        gathered: Sequence[Gathered],
        *,
        key: str | None = None,
        digest: bytes = b"",
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> tuple[publishing.AcceptancePlan, bytes | None, Trace | None]:
        """What was stored, the first answer for this ``key`` if there was one, and the trace if one is recorded.

        HTTP and MQTT both end here, so all messages are routed, put into lanes, marked and traced alike.
        """
        if self._spans is None:
            return *await self._store_now(gathered, key, digest), None
        submissions = [each for group in gathered for each in group.submissions]
        came = traces.incoming(submissions, headers.get(TRACEPARENT), headers.get(TRACESTATE))
        named = span_names.of_messages(len(submissions), operation="send")
        hop = self._spans.begin(span_names.PUBLISH, came.first, kind="producer", links=came.others, attributes=named)
        if hop is None:
            plain = [_resigned(each, traces.not_recorded) for each in gathered]
            return *await self._store_now(plain, key, digest), None
        trace, failure = hop.trace, "not stored"
        with hop.named_in_logs():
            try:
                recorded = [_resigned(each, lambda some: traces.recorded(some, came, trace)) for each in gathered]
                plan, first = await self._store_now(recorded, key, digest)
                failure = plan.refusal.code if first is None and plan.refusal is not None else ""
            except (FairleadError, asyncio.CancelledError) as error:
                failure = errors.text_of(error)
                raise
            finally:
                hop.end(failure)
        return plan, first, trace

    async def _store_now(
        self, gathered: Sequence[Gathered], key: str | None, digest: bytes
    ) -> tuple[publishing.AcceptancePlan, bytes | None]:
        plan = self._plan(gathered)
        if plan.entries or (key is not None and plan.refusal is None):
            idempotency = None if key is None else IdempotencyKey(key, digest, plan.answer())
            first = await self._append(plan, idempotency)
            if first is not None:
                self.counters["repeated"] += len(plan.results)
                return plan, first
            self._appended({reference.queue for entry in plan.entries for reference in entry.references})
        self._count(plan)
        return plan, None

    def _plan(self, gathered: Sequence[Gathered]) -> publishing.AcceptancePlan:
        router, at = self._usable_router(), self._timestamp()
        plans = [
            publishing.shortened(
                publishing.plan(
                    each.submissions,
                    router,
                    new_id=self._new_id,
                    enqueued_at=at,
                    mark=marks.marker(each.module),
                    lane=self._lane,
                ),
                each.ttl_seconds,
            )
            for each in gathered
        ]
        if len(plans) == 1:
            return plans[0]
        return publishing.AcceptancePlan(
            entries=tuple(entry for each in plans for entry in each.entries),
            results=tuple(result for each in plans for result in each.results),
        )

    async def _append(self, plan: publishing.AcceptancePlan, idempotency: IdempotencyKey | None) -> bytes | None:
        try:
            return await self._outbox.append(plan.entries, now=self._clock(), idempotency=idempotency)
        except StoreFull:
            if not await self._make_room() and not self._evict:
                raise
        return await self._outbox.append(plan.entries, now=self._clock(), idempotency=idempotency, evict=self._evict)

    def _count(self, plan: publishing.AcceptancePlan) -> None:
        self.counters["received"] += len(plan.results)
        self.counters["accepted"] += len(plan.entries)
        self.counters["no_route"] += plan.no_route
        self.counters["held"] += plan.held
        for result in plan.results:
            if isinstance(result, publishing.NotAccepted):
                self.counters[f"refused_{result.error.code}"] += 1


def _resigned(
    gathered: Gathered,
    change: Callable[
        [Sequence[publishing.Submission | publishing.RefusalReason]],
        Sequence[publishing.Submission | publishing.RefusalReason],
    ],
) -> Gathered:
    return msgspec.structs.replace(gathered, submissions=change(gathered.submissions))
