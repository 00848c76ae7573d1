"""One connection with the hub: carries out the effects of its ``EdgeSession``.

    reader ─frame─▶ EdgeSession ─effects─▶ sender
                     ▲  └─Apply, Summarise …─▶ store
                     └────── Applied … ──────────┘

A write that was given to the store is awaited even if the connection is gone, so that the next hello includes it and
watchers see it.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NamedTuple

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from fairlead_edge.errors import LinkDown
from fairlead_edge.io.link.module_inputs import InputStore, ModuleInputs
from fairlead_edge.objects import session, session_events
from fairlead_edge.objects.metastore import Metastore, WriteRefused
from fairlead_wire import message
from fairlead_wire.io import logs
from fairlead_wire.io.spans import Hop, Spans, recording
from fairlead_wire.log_limiter import LogLimiter
from fairlead_wire.traces import span_names, trace

CLOSE_SECONDS_MAX: Final = 1.0
CLOSE_REASON_BYTES_MAX: Final = 120
"""The WebSocket protocol allows 123."""
REPORT_PRIORITY: Final = 0
"""Priority of object statuses among batches of messages: they are small, and only the newest is sent."""
_CLOSE_CODES: Final = {"protocol": 1002, "stopping": 1001}
_NORMAL_CLOSURE: Final = 1000


LOGGED_SECONDS: Final = 3600.0
"""The interval between log lines about the same object refused for the same reason."""
_refusals = LogLimiter(LOGGED_SECONDS)
_log = logs.get("edge.conversation")


Answer = message.Ack | message.Nack


class _Waiting(NamedTuple):
    """A request to be sent, and the future for its answer and the answer's content."""

    request: message.Upstream | message.Report
    content: bytes
    answer: asyncio.Future[tuple[message.FromHub, bytes]]


class Conversation:
    """One connection; carries out the effects of its ``EdgeSession``."""

    def __init__(
        self,
        connection: ClientConnection,
        core: session.EdgeSession,
        store: Metastore,
        clock: Callable[[], float],
        counters: Counter[str],
        opened: Callable[[message.Welcome], None],
        spans: Spans | None = None,
        remember: Callable[[], Awaitable[None]] | None = None,
        on_authorities: Callable[[message.Authorities, bytes], None] | None = None,
        inputs: InputStore | None = None,
        on_rules: Callable[[message.StatusRules, bytes], None] | None = None,
    ) -> None:
        """``opened`` is called with the welcome; before that, ``remember`` writes what must be on disk before a session
        opens.  ``on_authorities`` gets the authorities to trust, ``on_rules`` the rules for reported statuses;
        ``inputs`` stores messages for modules."""
        self._inputs = ModuleInputs(inputs, core, perform=self._perform, failed=self._failed, counters=counters)
        self._on_authorities, self._on_rules = on_authorities, on_rules
        self._remember = remember
        self._spans = spans
        self._connection = connection
        self._core = core
        self._store = store
        self._clock = clock
        self._counters = counters
        self._opened = opened
        self._urgent: deque[bytes] = deque()
        self._bulk: list[tuple[int, int, _Waiting]] = []
        """A heap of requests, by priority and then in the order of the calls."""
        self._calls = 0
        self._to_send = asyncio.Event()
        self._room = asyncio.Event()
        self._retimed = asyncio.Event()
        self._working: asyncio.Task[None] | None = None
        self._ended: asyncio.Future[session_events.Close] = asyncio.get_running_loop().create_future()
        self._unanswered: dict[int, asyncio.Future[tuple[message.FromHub, bytes]]] = {}
        """Pending requests by id."""
        self._was_open = False
        self.answers_tables = False
        """Whether this hub answers how far tables have read."""
        self.takes_reports = False
        """Whether this hub accepts statuses of objects."""
        self.upstream_window = 0
        """How many batches may be unanswered; 0 unless the session is open."""

    async def run(self) -> session_events.Close:
        """Run until the connection or the session ends; returns the reason."""
        self.handle(session_events.Connected())
        tasks = [asyncio.create_task(loop()) for loop in (self._read, self._write, self._tick)]
        try:
            parts: list[asyncio.Future[Any]] = [self._ended, *tasks]
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()  # a loop ends only by an error: the store failed, or a bug
            end = self._ended.result()
            await self._say_goodbye(end)
            return end
        finally:
            self.upstream_window = 0
            self._core.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._fail_unanswered()
            if self._working:
                await asyncio.wait([self._working])

    def end(self, end: session_events.Close) -> None:
        """End it from this side.  Nothing more is sent upstream, even while the goodbye is still under way."""
        self.upstream_window = 0
        if not self._ended.done():
            self._ended.set_result(end)

    def last_heard(self) -> float | None:
        """When the last frame arrived, in seconds of the store's clock; None before the session opened."""
        if not self._was_open:
            return None
        silence = asyncio.get_running_loop().time() - self._core.last_received
        return self._clock() - max(0.0, silence)

    def handle(self, event: session_events.Event) -> None:
        """Pass an event to the core and carry out its effects."""
        for effect in self._core.handle(event, asyncio.get_running_loop().time()):
            self._perform(effect)

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
    ) -> Answer:
        """See ``Link.send_upstream``.  Raises ``LinkDown`` if the session is not open, or ends before the answer."""
        if not self.upstream_window or not self._core.is_open:
            raise LinkDown("no session with the hub is open")
        header = message.Upstream(
            id=0,
            stream=stream,
            topic=topic,
            encoding=encoding,
            follows=follows,
            traceparent=traceparent,
            positions=True,
        )
        return await self._queued(priority, header, content)

    async def send_report(
        self, resource: str, uid: str, force: message.Force, encoding: message.Encoding, content: bytes
    ) -> Answer:
        """Send the status of an object.  Raises ``LinkDown`` as ``send_upstream`` does."""
        if not self._core.is_open or not self.takes_reports:
            raise LinkDown("no session with a hub that accepts statuses is open")
        header = message.Report(id=0, resource=resource, uid=uid, force=force, encoding=encoding)
        return await self._queued(REPORT_PRIORITY, header, content)

    async def _queued(self, priority: int, request: message.Upstream | message.Report, content: bytes) -> Answer:
        waiting = _Waiting(request, content, asyncio.get_running_loop().create_future())
        self._calls += 1
        heapq.heappush(self._bulk, (priority, self._calls, waiting))
        self._to_send.set()
        answer, _ = await waiting.answer
        if not isinstance(answer, Answer):
            raise self._unexpected(answer)
        return answer

    async def renew(self, request: bytes) -> tuple[message.Issued | message.Nack, bytes]:
        """Request a certificate; returns the answer and its content.  Raises ``LinkDown`` as ``send_upstream`` does."""
        if not self._core.is_open:
            raise LinkDown("no session with the hub is open")
        answer, content = await self._asked(message.Renew(id=0), request)
        if not isinstance(answer, message.Issued | message.Nack):
            raise self._unexpected(answer)
        return answer, content

    async def ask_tables(self, topics: list[str]) -> bytes | message.Nack:
        """Ask the hub how far tables have read these topics.  Raises ``LinkDown`` as ``send_upstream`` does."""
        if not self._core.is_open or not self.answers_tables:
            raise LinkDown("no session with a hub that answers this is open")
        answer, content = await self._asked(message.AskTables(id=0, topics=topics))
        if not isinstance(answer, message.Tables | message.Nack):
            raise self._unexpected(answer)
        return answer if isinstance(answer, message.Nack) else content

    async def _asked(
        self, request: message.Renew | message.AskTables, content: bytes = b""
    ) -> tuple[message.FromHub, bytes]:
        """Send a request ahead of all waiting batches; returns the answer."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[message.FromHub, bytes]] = loop.create_future()
        id, send = self._core.ask(request, loop.time(), content)
        self._unanswered[id] = answer
        self._perform(send)
        try:
            return await answer
        finally:
            self._unanswered.pop(id, None)

    def _unexpected(self, answer: message.FromHub) -> LinkDown:
        """End the session, because the hub's answer does not fit the request."""
        reason = f"{type(answer).__name__} is not an answer to that request"
        self.end(session_events.Close(code="protocol", reason=reason))
        return _lost()

    def _perform(self, effect: session_events.Effect) -> None:
        match effect:
            case session_events.SendFrame():
                self._urgent.append(effect.frame)
                self._to_send.set()
            case session_events.Apply():
                self._work(self._apply(effect))
            case session_events.PersistFence():
                self._work(self._persist_fence(effect))
            case session_events.Summarise():
                self._work(self._summarise(effect))
            case session_events.ListEntries():
                self._work(self._list(effect))
            case session_events.SessionOpened():
                self.upstream_window = max(1, effect.welcome.upstream_window)
                self._was_open = True
                self.answers_tables = effect.welcome.tables
                self.takes_reports = effect.welcome.reports
                self._retimed.set()
                self._opened(effect.welcome)
            case session_events.Answered():
                waiting = self._unanswered.pop(effect.answer.parent_id, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result((effect.answer, effect.content))
            case session_events.AuthoritiesReceived():
                if self._on_authorities is not None:
                    self._on_authorities(effect.authorities, effect.content)
            case session_events.InputReceived() | session_events.InputStatesRequested():
                self._inputs.handle(effect)
            case session_events.StatusRulesReceived():
                if self._on_rules is not None:
                    self._on_rules(effect.rules, effect.content)
            case session_events.Close():
                self.end(effect)

    # ---- the store -------------------------------------------------------------------------------

    def _work(self, asked: Coroutine[Any, Any, session_events.Event]) -> None:
        # A separate task, not cancelled with the connection: watchers must see what was written.
        # The core asks for one thing at a time, so the previous task is done.
        self._working = asyncio.create_task(self._finish(asked))
        self._working.add_done_callback(self._finished)

    async def _finish(self, asked: Coroutine[Any, Any, session_events.Event]) -> None:
        event = await asked
        self.handle(event)
        self._room.set()

    def _finished(self, task: asyncio.Task[None]) -> None:
        if (error := task.exception()) is not None:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        if not self._ended.done():
            self._ended.set_exception(error)

    async def _apply(self, effect: session_events.Apply) -> session_events.Event:
        with recording(self._hop(effect) if effect.traceparents else None):
            outcomes = await self._store.apply(effect.writes, self._clock())
        self._counters.update(f"write_{type(outcome).__name__.lower()}" for outcome in outcomes)
        for write, outcome in zip(effect.writes, outcomes, strict=True):
            if isinstance(outcome, WriteRefused):
                _log_refused(write.resource.path, outcome)
        return session_events.Applied(outcomes)

    def _hop(self, effect: session_events.Apply) -> Hop | None:
        """The span of a batch of writes in which a change is traced."""
        origins = [found for each in effect.traceparents if (found := trace.sampled(each)) is not None]
        if self._spans is None or not origins:
            return None
        return self._spans.hop(span_names.APPLY, origins, kind="server", attributes={"writes": len(effect.writes)})

    async def _persist_fence(self, effect: session_events.PersistFence) -> session_events.Event:
        await self._store.persist_fence(effect.fence)
        if self._remember is not None:
            await self._remember()
        return session_events.FencePersisted()

    async def _summarise(self, effect: session_events.Summarise) -> session_events.Event:
        return session_events.Summarised(await self._store.summary(effect.bits))

    async def _list(self, effect: session_events.ListEntries) -> session_events.Event:
        return session_events.EntriesListed(await self._store.entries(effect.bits, effect.buckets))

    # ---- the connection --------------------------------------------------------------------------

    async def _read(self) -> None:
        while True:
            while not self._core.has_room:
                self._room.clear()
                await self._room.wait()
            try:
                frame = await self._connection.recv(decode=False)
            except ConnectionClosed as error:
                self.end(session_events.Close(code="disconnected", reason=f"the connection closed: {error}"))
                return await _forever()
            self._counters["frames_received"] += 1
            self._counters["bytes_received"] += len(frame)
            self.handle(session_events.FrameReceived(frame))

    async def _write(self) -> None:
        while True:
            while not self._urgent and not self._bulk:
                self._to_send.clear()
                await self._to_send.wait()
            # The hub times out on acks, but not on batches: on a slow link an ack must not queue behind megabytes.
            frame = self._urgent.popleft() if self._urgent else self._framed(heapq.heappop(self._bulk)[2])
            if frame is None:
                continue
            try:
                await self._connection.send(frame)
            except ConnectionClosed as error:
                self.end(session_events.Close(code="disconnected", reason=f"the connection closed: {error}"))
                return await _forever()
            self._counters["frames_sent"] += 1
            self._counters["bytes_sent"] += len(frame)

    def _framed(self, waiting: _Waiting) -> bytes | None:
        """The frame of a request, with the next id; None if its caller is gone or the session has ended."""
        if waiting.answer.done():
            return None
        if not self._core.is_open:
            waiting.answer.set_exception(_lost())
            return None
        id, send = self._core.ask(waiting.request, asyncio.get_running_loop().time(), waiting.content)
        self._unanswered[id] = waiting.answer
        return send.frame

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._retimed.clear()
            with contextlib.suppress(TimeoutError):
                # Not wait_for: in Python 3.11 it loses a cancellation that arrives together with the event.
                async with asyncio.timeout(max(0.0, self._core.next_tick() - loop.time())):
                    await self._retimed.wait()
            self.handle(session_events.Ticked())

    async def _say_goodbye(self, end: session_events.Close) -> None:
        reason = end.reason.encode()[:CLOSE_REASON_BYTES_MAX].decode(errors="ignore")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                await self._connection.close(_CLOSE_CODES.get(end.code, _NORMAL_CLOSURE), reason)

    def _fail_unanswered(self) -> None:
        for answer in (*self._unanswered.values(), *(waiting.answer for _, _, waiting in self._bulk)):
            if not answer.done():
                answer.set_exception(_lost())
        self._unanswered.clear()
        self._bulk.clear()


def _lost() -> LinkDown:
    return LinkDown("the link went down before the hub answered")


def _log_refused(path: str, refused: WriteRefused) -> None:
    """Log a refused object, rate-limited by object and reason, because the hub retries."""
    times = _refusals.due((path, refused.code), asyncio.get_running_loop().time())
    if times is not None:
        _log.warning(
            "object_refused", object=path, code=refused.code, reason=refused.reason, permanent=refused.permanent,
            times=times,
        )  # fmt: skip


async def _forever() -> None:
    await asyncio.Event().wait()
