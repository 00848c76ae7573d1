"""The connection to the hub: dials, converses, and dials again, at most about a second apart.

Link.run ── dial ──▶ Conversation ── until the session ends ─┐
    ▲                                                        │
    └──────────────── wait, jittered ◀───────────────────────┘
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import sys
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidMessage, InvalidStatus, WebSocketException
from websockets.proxy import get_proxy
from websockets.uri import parse_uri

from fairlead_edge.errors import LinkDown, StoreFailed
from fairlead_edge.io.link.conversation import CLOSE_SECONDS_MAX, Conversation
from fairlead_edge.link_state import LinkState
from fairlead_edge.objects.metastore import Metastore
from fairlead_edge.objects.sync import effects, events, session
from fairlead_wire import codec, message
from fairlead_wire.errors import Temporary
from fairlead_wire.io import handshake, logs, tls
from fairlead_wire.io.spans import Spans
from fairlead_wire.validation.listen_address import is_loopback

DIAL_SECONDS_MAX: Final = 2.0
"""For TCP alone.  Where packets are dropped the kernel repeats itself after 1, 3, 7 s …; a new attempt finds a link
that came back sooner, and costs a hub that is there nothing."""
OPEN_SECONDS_MAX: Final = 10.0
"""For TLS and the upgrade: a hub to which a thousand nodes come back needs its time."""
RETRY_AFTER_SECONDS_MAX: Final = 600.0
"""A hub that asks for more is asked again after this."""
ATTEMPT_JITTER: Final = 0.5
"""A wait is drawn from this share of its maximum up to all of it, so that nodes do not come back in step."""
CONTACT_SECONDS: Final = 10.0
"""How often the time of the last contact is written down."""

TCP_NOTSENT_LOWAT: Final = 25
"""Linux's number; this Python's socket module has no name for it."""
UNSENT_BYTES_MAX: Final = 128 * 1024
"""What the kernel may hold unsent: an ack that is urgent waits behind no more than this."""

_log = logs.get("edge.link")


class Link:
    """Keeps one session with the hub.

    ``clock`` is the store's clock (seconds; survives restarts), ``random`` draws the jitter, ``client_tls`` gives each
    dial its TLS context (None: plain), ``unfit`` says what is wrong with our own certificate.  ``attempt_seconds_max``
    is the longest pause between two attempts unless the hub asked for a longer one.
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
        client_tls: tls.ClientTls | None = None,
        unfit: Callable[[], str] = lambda: "",
        spans: Spans | None = None,
    ) -> None:
        self._spans = spans
        self._unfit = unfit
        self._hub_url = hub_url
        url = urlsplit(hub_url)
        self._host = url.hostname or ""
        self._port = url.port or (443 if url.scheme == "wss" else 80)
        self._node = node
        self._agent = agent
        self._store_epoch = store_epoch
        self._store = store
        self._clock = clock
        self._random = random
        self._attempt_seconds_max = attempt_seconds_max
        self._tls = client_tls
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
        """Send the agent's status to the hub, now or when it is back; the same status is sent once."""
        self._status = status
        if self._conversation:
            self._conversation.handle(events.Reported(status))

    async def send_upstream(
        self,
        stream: str,
        encoding: message.Encoding,
        content: bytes,
        *,
        follows: bool = False,
        priority: int = 0,
        traceparent: str | None = None,
    ) -> message.Ack | message.Nack:
        """Send one batch and wait for the hub's answer; calls of one priority leave in the order they were made, and
        what waits to leave is overtaken by lower numbers.

        Raises ``LinkDown`` when no session is open or it ends first: whether the hub took it is then unknown.
        """
        if not self._conversation:
            raise LinkDown("not connected to the hub")
        return await self._conversation.send_upstream(
            stream, encoding, content, follows=follows, priority=priority, traceparent=traceparent
        )

    async def run(self) -> None:
        """Until cancelled, or until the hub says not to come back.

        Raises ``StoreFailed`` alone: whatever else goes wrong with a connection ends that connection, has a name and
        a count, and the next attempt follows.
        """
        try:
            self._touched = await self._store.contact_at()
            self.state = self.state.started(self._clock(), self._touched)
            while not self._stopping:
                try:
                    end = await self._attempt()
                except StoreFailed:
                    raise
                except Exception as error:  # noqa: BLE001 - named, counted, and tried again: the node must go on
                    _log.error("link_error", **logs.describe_error(error), remedy="report it; the agent dials again")
                    end = effects.Close(code="error", reason=f"{type(error).__name__}: {error}")
                self.counters[f"ended_{end.code}"] += 1
                self._note_end(end)
                if end.retry_after is None:
                    return
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._waking.wait(), self._pause(end.retry_after))
                if not self._stopping:
                    self._waking.clear()
        finally:
            self.ended.set()

    def compare_again(self, reason: str) -> None:
        """Less is held than the hub knows: end the session, for the next one opens with what is held."""
        if self._conversation:
            self._conversation.end(effects.Close(code="compare_again", reason=reason))

    def certificate_replaced(self) -> None:
        """Dial at once if a pause is under way: with the new certificate the hub may answer differently."""
        if self._conversation is None:
            self._waking.set()

    def stop(self) -> None:
        """Say goodbye to the hub and let ``run`` end; an attempt that is under way may still take its time."""
        self._stopping = True
        self._waking.set()
        if self._conversation:
            self._conversation.end(effects.Close(code="stopping", reason="the edge agent stops", retry_after=None))

    def _note_end(self, end: effects.Close) -> None:
        repeated = self.state.reason == end.reason and self.state.state == "connecting"
        self.state = self.state.ended(end.reason, self._clock(), dials_again=end.retry_after is not None)
        if not repeated and not self._stopping:  # a hub that is away is reported once, not every second
            _log.warning("link_down", code=end.code, reason=end.reason, retry_after=end.retry_after)

    def _pause(self, asked: float) -> float:
        longest = self._attempt_seconds_max
        jittered = longest * self._random.uniform(ATTEMPT_JITTER, 1.0)
        if asked <= longest:
            return max(asked, jittered)
        # Never before the time asked for, and not all at that very moment.
        return min(asked, RETRY_AFTER_SECONDS_MAX) + jittered

    async def _attempt(self) -> effects.Close:
        dialled: list[_Dialled] = []

        def remembered(*args: Any, **options: Any) -> _Dialled:
            dialled.append(_Dialled(*args, **options))
            return dialled[-1]

        alert_socket: socket.socket | None = None
        context = self._tls.context() if self._tls is not None else None
        try:
            proxy = None if is_loopback(self._host) else get_proxy(parse_uri(self._hub_url))
            dialled_socket = None if proxy else await self._dial()
            if dialled_socket is not None and context is not None:
                alert_socket = handshake.spare(dialled_socket)
            connection = await connect(
                self._hub_url,
                sock=dialled_socket,
                ssl=context,
                compression=None,  # contents are packed once for all nodes by the codec
                proxy=proxy,
                open_timeout=OPEN_SECONDS_MAX,
                close_timeout=CLOSE_SECONDS_MAX,
                ping_interval=None,  # the session's own keepalive finds a half-open link
                max_size=codec.FRAME_BYTES_MAX,
                create_connection=remembered,  # type: ignore[arg-type]  # any factory will do
                user_agent_header=f"fairlead-edge/{self._agent}",
            )
        except InvalidStatus as error:
            return _turned_away(error)
        except (OSError, WebSocketException, TimeoutError) as error:
            handshake.send_alert(alert_socket, handshake.refusal(error))
            return self._unreachable(error, context, *(each.lost for each in dialled))
        finally:
            if alert_socket is not None:
                alert_socket.close()
        try:
            return await self._converse(connection)
        except Temporary as error:  # the fence could not be written down, so this hub may not be obeyed yet
            return effects.Close(code="store_busy", reason=str(error), retry_after=error.retry_after_seconds or 0.0)
        finally:
            connection.transport.abort()

    def _unreachable(
        self, error: BaseException, context: ssl.SSLContext | None, *lost: BaseException | None
    ) -> effects.Close:
        """Why, in words a person at the node can act on; a certificate's fault before all others."""
        refused = next(filter(None, map(handshake.refusal, (error, *lost))), None)
        unfit = self._unfit() if context is not None else ""
        if refused is not None and not refused.ours:
            return effects.Close(code="certificate", reason=f"{self._host}:{self._port}: {refused}")
        if refused is not None or (unfit and isinstance(error, InvalidMessage)):
            said = str(refused) if refused is not None else "the hub hung up without a word"
            return effects.Close(code="certificate", reason=f"{said}; {unfit}" if unfit else said)
        if context is not None and isinstance(error, InvalidMessage) and isinstance(error.__cause__, EOFError):
            # Older hubs, and proxies in between, close without saying that they refuse a certificate.
            own = getattr(context, "own", None)
            said = f"the hub hung up after TLS; most likely it refuses our certificate, which is {own or 'unreadable'}"
            return effects.Close(code="unreachable", reason=said)
        return effects.Close(code="unreachable", reason=f"{type(error).__name__}: {error}")

    async def _dial(self) -> socket.socket:
        """A TCP connection to the hub.  Raises ``OSError`` or ``TimeoutError`` of the last address tried."""
        loop = asyncio.get_running_loop()
        failure: OSError = OSError("no address")
        for family, kind, protocol, _, address in await loop.getaddrinfo(
            self._host, self._port, type=socket.SOCK_STREAM
        ):
            dialled = socket.socket(family, kind, protocol)
            dialled.setblocking(False)
            try:
                if sys.platform == "linux":
                    dialled.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX)
                async with asyncio.timeout(DIAL_SECONDS_MAX):
                    await loop.sock_connect(dialled, address)
            except OSError as error:
                dialled.close()
                failure = error
            except BaseException:
                dialled.close()
                raise
            else:
                return dialled
        raise failure

    async def _converse(self, connection: ClientConnection) -> effects.Close:
        now = asyncio.get_running_loop().time()
        core = session.EdgeSession(
            node=self._node,
            agent=self._agent,
            store_epoch=self._store_epoch,
            fence=await self._store.fence(),
            now=now,
        )
        conversation = Conversation(
            connection, core, self._store, self._clock, self.counters, self._session_opened, self._spans
        )
        self._conversation = conversation
        contact = asyncio.create_task(self._keep_contact(conversation))
        try:
            if self._status is not None:
                conversation.handle(events.Reported(self._status))
            end = await conversation.run()
        finally:
            self._conversation = None
            contact.cancel()
            self._heard(conversation)
        await self._touch()
        return end

    def _session_opened(self, welcome: message.Welcome) -> None:
        self.counters["sessions"] += 1
        self.state = self.state.opened(hub=welcome.hub, fence=welcome.fence, now=self._clock())
        _log.info("link_up", hub=welcome.hub, fence=welcome.fence, session=welcome.session)
        for listener in self._opened:
            listener()

    def last_contact(self) -> float | None:
        """When the hub was last heard in an open session, in seconds of the store's clock; None = never."""
        if self._conversation:
            self._heard(self._conversation)
        return self.state.last_contact

    def _heard(self, conversation: Conversation) -> None:
        self.state = self.state.heard(conversation.last_heard())

    async def _keep_contact(self, conversation: Conversation) -> None:
        with contextlib.suppress(StoreFailed):  # the next write raises it
            while True:
                await asyncio.sleep(CONTACT_SECONDS)
                self._heard(conversation)
                await self._touch()

    async def write_contact(self) -> None:
        """Write down when the hub was last heard; after ``run`` ended, however it did.

        A goodbye that takes too long is cut off, and the write that follows it with it.
        """
        with contextlib.suppress(StoreFailed):  # the call that met it first raises it
            await self._touch()

    async def _touch(self) -> None:
        contact = self.state.last_contact
        if contact is not None and contact != self._touched:
            with contextlib.suppress(Temporary):  # a full disk: the age is understated after a restart, no more
                await self._store.touch(contact)
            self._touched = contact


class _Dialled(ClientConnection):
    """Remembers what ended it: during the upgrade the library says that it ended, not why."""

    lost: Exception | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = exc
        super().connection_lost(exc)


def _turned_away(error: InvalidStatus) -> effects.Close:
    response = error.response
    try:
        asked = float(response.headers.get("Retry-After", "0"))
    except ValueError:
        asked = 0.0  # a date: our own pace will do
    reason = f"the hub answered HTTP {response.status_code}"
    return effects.Close(code="turned_away", reason=reason, retry_after=max(0.0, asked))
