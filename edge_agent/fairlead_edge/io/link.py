"""The connection to the hub: dials, converses, and dials again, at most about a second apart.

    Link.run ── connect ──▶ Conversation ── reader ─frame─▶ Sync ─effects─▶ sender, store
        ▲                        │                            ▲
        └── wait, jittered ◀─────┘ ended                      └── Applied … when the store is durable

What to say is decided in ``sync``; here bytes move and effects are performed in the order given.  A batch that
was handed to the store is waited for even when the connection is gone: the next hello tells what is held then.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from fairlead_edge import sync
from fairlead_edge.account import LinkState
from fairlead_edge.metastore import Metastore
from fairlead_wire import codec, message
from fairlead_wire.errors import Temporary
from fairlead_wire.io import logs

OPEN_SECONDS_MAX: Final = 10.0
CLOSE_SECONDS_MAX: Final = 1.0
RETRY_AFTER_SECONDS_MAX: Final = 600.0
"""A hub that asks for more is asked again after this."""
ATTEMPT_JITTER: Final = 0.5
"""A wait is drawn from this share of its maximum up to all of it, so that nodes do not come back in step."""
CONTACT_SECONDS: Final = 10.0
"""How often the time of the last contact is written down."""
CLOSE_REASON_BYTES_MAX: Final = 120
"""The WebSocket protocol carries 123."""
_CLOSE_CODES: Final = {"protocol": 1002, "stopping": 1001}
_NORMAL_CLOSURE: Final = 1000
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")

_log = logs.get("edge.link")


class LinkDown(Temporary):
    """No session is open, or it ended before the hub answered: offer the same again in the next one."""


class Link:
    """Keeps one session with the hub.

    ``clock`` is the store's clock (seconds; survives restarts), ``random`` draws the jitter, ``context`` is the
    TLS context (None: plain).  ``attempt_seconds_max`` is the longest pause between two attempts unless the hub
    asked for a longer one.
    """

    def __init__(
        self,
        *,
        hub_url: str,
        node: str,
        agent: str,
        store_epoch: int,
        store: Metastore,
        clock: Callable[[], float],
        random: Random,
        attempt_seconds_max: float,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._hub_url = hub_url
        self._node = node
        self._agent = agent
        self._store_epoch = store_epoch
        self._store = store
        self._clock = clock
        self._random = random
        self._attempt_seconds_max = attempt_seconds_max
        self._context = context
        self._conversation: Conversation | None = None
        self._status: message.EdgeStatus | None = None
        self._opened: list[Callable[[], None]] = []
        self._touched: float | None = None
        self._stopping = False
        self._waking = asyncio.Event()
        self.ended = asyncio.Event()
        """Set when ``run`` has returned."""
        self.state = LinkState()
        self.counters: Counter[str] = Counter()
        """Events since the start: sessions, frames and bytes each way, ends by code."""

    @property
    def upstream_window(self) -> int:
        """Batches that may be unanswered at once; 0 while no session is open."""
        return self._conversation.upstream_window if self._conversation else 0

    def on_open(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` each time a session has opened."""
        self._opened.append(listener)

    def report(self, status: message.EdgeStatus) -> None:
        """Tell the hub the node's account of itself, now or when it is back; the same account is told once."""
        self._status = status
        if self._conversation:
            self._conversation.handle(sync.Reported(status))

    async def send_upstream(
        self, stream: str, encoding: message.Encoding, content: bytes
    ) -> message.Ack | message.Nack:
        """Send one batch and wait for the hub's answer; calls leave in the order they were made.

        Raises ``LinkDown`` when no session is open or it ends first: whether the hub took it is then unknown.
        """
        if not self._conversation or not self._conversation.upstream_window:
            raise LinkDown("not connected to the hub")
        return await self._conversation.send_upstream(stream, encoding, content)

    async def run(self) -> None:
        """Until cancelled, or until the hub says not to come back.  Raises what the store raises: it is broken then."""
        try:
            self.state.last_contact = self._touched = await self._store.contact_at()
            while not self._stopping:
                end = await self._attempt()
                self.counters[f"ended_{end.code}"] += 1
                self._note_end(end)
                if end.retry_after is None:
                    return
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._waking.wait(), self._pause(end.retry_after))
        finally:
            self.ended.set()

    def stop(self) -> None:
        """Say goodbye to the hub and let ``run`` end; an attempt that is under way may still take its time."""
        self._stopping = True
        self._waking.set()
        if self._conversation:
            self._conversation.end(sync.Close(code="stopping", reason="the edge agent stops", retry_after=None))

    def _note_end(self, end: sync.Close) -> None:
        repeated = self.state.reason == end.reason and self.state.state == "connecting"
        self.state.state = "connecting" if end.retry_after is not None else "refused"
        self.state.since = self._clock()
        self.state.reason = end.reason
        if not repeated and not self._stopping:  # a hub that is away is reported once, not every second
            _log.warning("link_down", code=end.code, reason=end.reason, retry_after=end.retry_after)

    def _pause(self, asked: float) -> float:
        longest = self._attempt_seconds_max
        jittered = longest * self._random.uniform(ATTEMPT_JITTER, 1.0)
        if asked <= longest:
            return max(asked, jittered)
        # Never before the time asked for, and not all at that very moment.
        return min(asked, RETRY_AFTER_SECONDS_MAX) + jittered

    async def _attempt(self) -> sync.Close:
        try:
            connection = await connect(
                self._hub_url,
                ssl=self._context,
                compression=None,  # contents are packed once for all nodes by the codec
                proxy=None if urlsplit(self._hub_url).hostname in _LOOPBACK else True,
                open_timeout=OPEN_SECONDS_MAX,
                close_timeout=CLOSE_SECONDS_MAX,
                ping_interval=None,  # the session's own keepalive tells a half-open link
                max_size=codec.FRAME_BYTES_MAX,
                user_agent_header=f"fairlead-edge/{self._agent}",
            )
        except InvalidStatus as error:
            return _turned_away(error)
        except (OSError, WebSocketException, TimeoutError) as error:
            return sync.Close(code="unreachable", reason=f"{type(error).__name__}: {error}")
        try:
            return await self._converse(connection)
        except Temporary as error:  # the fence could not be written down, so this hub may not be obeyed yet
            return sync.Close(code="store_busy", reason=str(error), retry_after=error.retry_after_seconds or 0.0)
        finally:
            connection.transport.abort()

    async def _converse(self, connection: ClientConnection) -> sync.Close:
        now = asyncio.get_running_loop().time()
        core = sync.Sync(
            node=self._node,
            agent=self._agent,
            store_epoch=self._store_epoch,
            fence=await self._store.fence(),
            now=now,
        )
        conversation = Conversation(connection, core, self._store, self._clock, self.counters, self._session_opened)
        self._conversation = conversation
        contact = asyncio.create_task(self._keep_contact(conversation))
        try:
            if self._status is not None:
                conversation.handle(sync.Reported(self._status))
            end = await conversation.run()
        finally:
            self._conversation = None
            contact.cancel()
            self._heard(conversation)
        await self._touch()
        return end

    def _session_opened(self, welcome: message.Welcome) -> None:
        self.counters["sessions"] += 1
        now = self._clock()
        self.state = LinkState(
            state="connected", hub=welcome.hub, fence=welcome.fence, since=now, last_contact=self.state.last_contact
        )
        _log.info("link_up", hub=welcome.hub, fence=welcome.fence, session=welcome.session)
        for listener in self._opened:
            listener()

    def last_contact(self) -> float | None:
        """When the hub was last heard in an open session, in seconds of the store's clock; None = never."""
        if self._conversation:
            self._heard(self._conversation)
        return self.state.last_contact

    def _heard(self, conversation: Conversation) -> None:
        if (heard := conversation.last_heard()) is not None:
            self.state.last_contact = heard

    async def _keep_contact(self, conversation: Conversation) -> None:
        while True:
            await asyncio.sleep(CONTACT_SECONDS)
            self._heard(conversation)
            await self._touch()

    async def _touch(self) -> None:
        if self.state.last_contact not in (None, self._touched):
            self._touched = self.state.last_contact
            assert self._touched is not None
            with contextlib.suppress(Temporary):  # a full disk: the age is understated after a restart, no more
                await self._store.touch(self._touched)


class Conversation:
    """One connection: performs what its ``Sync`` decides."""

    def __init__(
        self,
        connection: ClientConnection,
        core: sync.Sync,
        store: Metastore,
        clock: Callable[[], float],
        counters: Counter[str],
        opened: Callable[[message.Welcome], None],
    ) -> None:
        self._connection = connection
        self._core = core
        self._store = store
        self._clock = clock
        self._counters = counters
        self._opened = opened
        self._outgoing: deque[bytes] = deque()
        self._to_send = asyncio.Event()
        self._room = asyncio.Event()
        self._retimed = asyncio.Event()
        self._working: asyncio.Task[None] | None = None
        self._ended: asyncio.Future[sync.Close] = asyncio.get_running_loop().create_future()
        self._unanswered: dict[int, asyncio.Future[message.Ack | message.Nack]] = {}
        self._was_open = False
        self.upstream_window = 0
        """Batches that may be unanswered at once; 0 unless the session is open."""

    async def run(self) -> sync.Close:
        """Until the connection or the session ends; says why."""
        self.handle(sync.Connected())
        tasks = [asyncio.create_task(loop()) for loop in (self._read, self._write, self._tick)]
        try:
            parts: list[asyncio.Future[Any]] = [self._ended, *tasks]
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()  # parts end only by an error: of the store or of ours
            end = self._ended.result()
            await self._say_goodbye(end)
            return end
        finally:
            self.upstream_window = 0
            self._core.session.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._fail_unanswered()
            if self._working:
                await asyncio.wait([self._working])

    def end(self, end: sync.Close) -> None:
        """End it from this side."""
        if not self._ended.done():
            self._ended.set_result(end)

    def last_heard(self) -> float | None:
        """Seconds of the store's clock; None before the session opened."""
        if not self._was_open:
            return None
        silence = asyncio.get_running_loop().time() - self._core.session.last_received
        return self._clock() - max(0.0, silence)

    def handle(self, event: sync.Event) -> None:
        """Give an event to the core and perform what it wants."""
        for effect in self._core.handle(event, asyncio.get_running_loop().time()):
            self._perform(effect)

    async def send_upstream(
        self, stream: str, encoding: message.Encoding, content: bytes
    ) -> message.Ack | message.Nack:
        loop = asyncio.get_running_loop()
        id, send = self._core.send_upstream(stream, encoding, content, loop.time())
        answer: asyncio.Future[message.Ack | message.Nack] = loop.create_future()
        self._unanswered[id] = answer
        self._perform(send)
        return await answer

    def _perform(self, effect: sync.Effect) -> None:
        match effect:
            case sync.Send():
                self._outgoing.append(effect.frame)
                self._to_send.set()
            case sync.Apply():
                self._work(self._apply(effect))
            case sync.Obey():
                self._work(self._obey(effect))
            case sync.Summarise():
                self._work(self._summarise(effect))
            case sync.ListEntries():
                self._work(self._list(effect))
            case sync.Opened():
                self.upstream_window = max(1, effect.welcome.upstream_window)
                self._was_open = True
                self._retimed.set()
                self._opened(effect.welcome)
            case sync.Settled():
                waiting = self._unanswered.pop(effect.answer.parent_id, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(effect.answer)
            case sync.Close():
                self.end(effect)

    # ---- the store -------------------------------------------------------------------------------

    def _work(self, asked: Coroutine[Any, Any, sync.Event]) -> None:
        # A task of its own, never cancelled with the connection: what was written is also told to watchers.
        # The core asks for one thing at a time, so that the task before this one is done.
        self._working = asyncio.create_task(self._finish(asked))
        self._working.add_done_callback(self._finished)

    async def _finish(self, asked: Coroutine[Any, Any, sync.Event]) -> None:
        event = await asked
        self.handle(event)
        self._room.set()

    def _finished(self, task: asyncio.Task[None]) -> None:
        if (error := task.exception()) is not None and not self._ended.done():
            self._ended.set_exception(error)

    async def _apply(self, effect: sync.Apply) -> sync.Event:
        outcomes = await self._store.apply(effect.writes, self._clock())
        self._counters.update(f"write_{type(outcome).__name__.lower()}" for outcome in outcomes)
        return sync.Applied(outcomes)

    async def _obey(self, effect: sync.Obey) -> sync.Event:
        await self._store.obey(effect.fence)
        return sync.Obeyed()

    async def _summarise(self, effect: sync.Summarise) -> sync.Event:
        return sync.Summarised(await self._store.summary(effect.bits))

    async def _list(self, effect: sync.ListEntries) -> sync.Event:
        return sync.Listed(await self._store.entries(effect.bits, effect.buckets))

    # ---- the connection --------------------------------------------------------------------------

    async def _read(self) -> None:
        while True:
            while not self._core.has_room:
                self._room.clear()
                await self._room.wait()
            try:
                frame = await self._connection.recv(decode=False)
            except ConnectionClosed as error:
                self.end(sync.Close(code="disconnected", reason=f"the connection closed: {error}"))
                return await _forever()
            self._counters["frames_received"] += 1
            self._counters["bytes_received"] += len(frame)
            self.handle(sync.Received(frame))

    async def _write(self) -> None:
        while True:
            while not self._outgoing:
                self._to_send.clear()
                await self._to_send.wait()
            frame = self._outgoing.popleft()
            try:
                await self._connection.send(frame)
            except ConnectionClosed as error:
                self.end(sync.Close(code="disconnected", reason=f"the connection closed: {error}"))
                return await _forever()
            self._counters["frames_sent"] += 1
            self._counters["bytes_sent"] += len(frame)

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._retimed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._retimed.wait(), max(0.0, self._core.next_tick() - loop.time()))
            self.handle(sync.Ticked())

    async def _say_goodbye(self, end: sync.Close) -> None:
        reason = end.reason.encode()[:CLOSE_REASON_BYTES_MAX].decode(errors="ignore")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                await self._connection.close(_CLOSE_CODES.get(end.code, _NORMAL_CLOSURE), reason)

    def _fail_unanswered(self) -> None:
        for waiting in self._unanswered.values():
            if not waiting.done():
                waiting.set_exception(LinkDown("the link went down before the hub answered"))
        self._unanswered.clear()


def _turned_away(error: InvalidStatus) -> sync.Close:
    response = error.response
    try:
        asked = float(response.headers.get("Retry-After", "0"))
    except ValueError:
        asked = 0.0  # a date: our own pace will do
    reason = f"the hub answered HTTP {response.status_code}"
    return sync.Close(code="turned_away", reason=reason, retry_after=max(0.0, asked))


async def _forever() -> None:
    await asyncio.Event().wait()
