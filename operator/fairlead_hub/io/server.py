"""The WebSocket server: one task for each connected node while it is quiet, a second one only while it sends.

    accept ─ identity ─ hello ─▶ Hub.open ─▶ frames in: Hub.receive, upstream desk
                                        └──▶ woken: frames out, as fast as the node reads

Identity is the client certificate's name and nothing else; with ``security = "insecure"`` (loopback only) it is what
the hello says.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request

from fairlead_hub.hub import Hub
from fairlead_hub.io.upstream import UpstreamDesk
from fairlead_hub.node_session import NodeSession
from fairlead_wire import codec, message
from fairlead_wire.errors import Malformed, RemoteError
from fairlead_wire.io import logs, tls
from fairlead_wire.session import OPENING_SECONDS_MAX

BATCH_FRAMES = 32
"""Frames taken from a session at once; then the loop serves others."""
CLOSE_SECONDS = 2.0
DRAIN_SECONDS = 5.0
RETRY_WHEN_DRAINING_SECONDS = 1.0
_OPENED = Request("/", Headers())
"""Stands for any opening that is over."""
_log = logs.get("hub.server")


class _Link:
    """One connection with an open session."""

    __slots__ = ("aborted", "due", "sending", "session", "socket", "timer")

    def __init__(self, socket: ServerConnection, session: NodeSession) -> None:
        self.socket = socket
        self.session = session
        self.sending: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.due = 0.0
        """When the timer rings."""
        self.aborted = ""


class LinkServer:
    """See the module.  ``poke`` may be called after anything; it wakes whoever has something to send."""

    def __init__(
        self,
        hub: Hub,
        desk: UpstreamDesk,
        *,
        context: ssl.SSLContext | None,
        on_stale: Callable[[int], None],
    ) -> None:
        self._hub, self._desk, self._context = hub, desk, context
        self._on_stale = on_stale
        self._links: dict[NodeSession, _Link] = {}
        self._poked = False
        self._draining = False
        self._server: Server | None = None
        self._loop = asyncio.get_running_loop()
        self._clock = self._loop.time

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port."""
        self._server = await serve(
            self._handle,
            host,
            port,
            ssl=self._context,
            compression=None,  # contents are compressed once for all nodes; per connection it costs 64-275 KiB
            max_size=codec.FRAME_BYTES_MAX,
            max_queue=16,
            ping_interval=None,  # the session's own keepalive sees half-open links, also through proxies
            close_timeout=CLOSE_SECONDS,
            server_header=None,
            open_timeout=OPENING_SECONDS_MAX,
            backlog=4096,
        )
        return int(next(iter(self._server.sockets)).getsockname()[1])

    async def drain(self) -> None:
        """Tell every node to come back soon, and stop."""
        self._draining = True
        refusal = message.Refuse(code="draining", reason="the hub is stopping", retry_after=RETRY_WHEN_DRAINING_SECONDS)
        for link in list(self._links.values()):
            link.session.refuse(refusal)
            self._wake(link)
        if self._server is not None:
            self._server.close(close_connections=False)
            waiting = {link.sending for link in self._links.values() if link.sending is not None}
            if waiting:
                await asyncio.wait(waiting, timeout=DRAIN_SECONDS)
            for link in list(self._links.values()):
                link.socket.transport.abort()

    # ---- one connection --------------------------------------------------------------------------

    async def _handle(self, socket: ServerConnection) -> None:
        try:
            session = await self._open(socket)
        except (TimeoutError, ConnectionClosed):
            return
        except RemoteError as error:
            self._hub.counts.malformed += 1
            _log.warning("hello_malformed", peer=str(socket.remote_address), reason=str(error))
            await _say_and_close(socket, message.Refuse(code="protocol", reason=str(error), retry_after=30.0))
            return
        if session is None:
            return
        link = _Link(socket, session)
        # The opening's HTTP headers are never looked at again, and ten thousand quiet nodes would keep them for days.
        socket.request, socket.response = _OPENED, None
        self._links[session] = link
        _log.info("session_opened", node=session.node, session=session.number, held=session.hello.held)
        self.poke()
        reason = "closed"
        try:
            async for frame in socket:
                self._receive(link, frame)
        except RemoteError as error:
            self._hub.counts.malformed += 1
            reason = f"malformed: {error}"
            session.refuse(message.Refuse(code="protocol", reason=str(error), retry_after=1.0))
            self._wake(link)
            if link.sending is not None:
                await asyncio.wait({link.sending}, timeout=CLOSE_SECONDS)
        except ConnectionClosed:
            reason = "broken"
        finally:
            self._forget(link)
            _log.info("session_closed", node=session.node, session=session.number, reason=link.aborted or reason)
            self.poke()

    async def _open(self, socket: ServerConnection) -> NodeSession | None:
        """The session, or None when it was refused.  Raises ``RemoteError`` on a hello that is none."""
        async with asyncio.timeout(OPENING_SECONDS_MAX):
            frame = await socket.recv()
        header, _ = codec.decode_from_edge(_binary(frame))
        if not isinstance(header, message.Hello):
            raise Malformed("the first frame must be a hello")
        node = self._identity(socket, header)
        if node is None:
            reason = "the client certificate carries no name"
            await _say_and_close(socket, message.Refuse(code="identity", reason=reason, retry_after=30.0))
            return None
        if self._draining:
            await _say_and_close(socket, message.Refuse(code="draining", reason="the hub is stopping", retry_after=1.0))
            return None
        outcome = self._hub.open(node, header, self._clock())
        if isinstance(outcome, message.Refuse):
            _log.warning("session_refused", node=node, code=outcome.code, reason=outcome.reason)
            if outcome.code == "stale_hub":
                self._on_stale(header.fence)
            await _say_and_close(socket, outcome)
            self.poke()
            return None
        return outcome

    def _identity(self, socket: ServerConnection, hello: message.Hello) -> str | None:
        if self._context is None:
            return hello.node
        encrypted = socket.transport.get_extra_info("ssl_object")
        return tls.peer_name(encrypted.getpeercert()) if encrypted is not None else None

    def _receive(self, link: _Link, frame: str | bytes) -> None:
        now = self._clock()
        counts = self._hub.counts
        data = _binary(frame)
        counts.frames_received += 1
        counts.bytes_received += len(data)
        header, content = codec.decode_from_edge(data)
        if isinstance(header, message.Upstream):
            link.session.link.received(header, now)
            self._desk.accept(link.session, header, content)
        else:
            self._hub.receive(link.session, header, content, now)
        if self._hub.woken:
            self.poke()

    def _forget(self, link: _Link) -> None:
        self._links.pop(link.session, None)
        if link.timer is not None:
            link.timer.cancel()
        if link.sending is not None:
            link.sending.cancel()
        self._desk.forget(link.session)
        self._hub.closed(link.session, self._clock())

    # ---- waking ----------------------------------------------------------------------------------

    def poke(self) -> None:
        """Once in this turn of the loop, however many changes there were."""
        if not self._poked:
            self._poked = True
            self._loop.call_soon(self._wake_all)

    def _wake_all(self) -> None:
        self._poked = False
        self._hub.settle(self._clock())
        woken, self._hub.woken = self._hub.woken, set()
        for session in woken:
            link = self._links.get(session)
            if link is not None:
                self._wake(link)

    def _wake(self, link: _Link) -> None:
        if link.sending is None:
            link.sending = self._loop.create_task(self._send(link))

    async def _send(self, link: _Link) -> None:
        """Everything the session has for now; a slow reader holds up nobody but itself."""
        session, counts = link.session, self._hub.counts
        try:
            while frames := session.frames(self._clock(), BATCH_FRAMES):
                for header, content in frames:
                    data = codec.encode(header, content)
                    counts.frames_sent += 1
                    counts.bytes_sent += len(data)
                    await link.socket.send(data)
                if session.closing is not None:
                    link.aborted = f"{session.closing.code}: {session.closing.reason}"
                    await link.socket.close()
                    return
            if session.outcomes:
                self._hub.tick(session, self._clock())
        except ConnectionClosed:
            return
        finally:
            link.sending = None
        self._arm(link)
        if session.has_frames:
            self._wake(link)

    # ---- time ------------------------------------------------------------------------------------

    def _arm(self, link: _Link) -> None:
        if link.session not in self._links:
            return
        due = link.session.next_tick()
        if link.timer is not None:
            # An earlier alarm re-arms itself: a frame that comes in need not touch the timer at all.
            if link.due <= due:
                return
            link.timer.cancel()
        link.due = due
        link.timer = self._loop.call_at(due, self._alarm, link)

    def _alarm(self, link: _Link) -> None:
        link.timer = None
        if not self._hub.tick(link.session, self._clock()):
            link.aborted = "silent"
            link.socket.transport.abort()
            return
        if link.session.has_frames:
            self._wake(link)
        self._arm(link)


def _binary(frame: str | bytes) -> bytes:
    if isinstance(frame, str):
        raise Malformed("text where a binary frame is expected")
    return frame


async def _say_and_close(socket: ServerConnection, refusal: message.Refuse) -> None:
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await socket.send(codec.encode(refusal))
            await socket.close()
    except (ConnectionClosed, TimeoutError):
        socket.transport.abort()
