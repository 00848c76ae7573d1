"""The ports the agent listens on: plain HTTP, TLS, or both on one port.

With mutual TLS on the link, the local API requires a token.  On loopback both protocols share the port: plain HTTP for
applications, which then need no certificates, and TLS for kubectl, which sends no token over plain HTTP.  The first
byte tells them apart: 0x16 begins a TLS handshake, and no HTTP request.

    accepted ─first byte─▶ TLS or plain ─handshake─▶ first request ─▶ HTTP server
        OPENING_MAX of them, OPENING_SECONDS_MAX each      HEADER_SECONDS_MAX      CONNECTIONS_MAX in all

A client that opens connections and sends nothing, or one byte a minute, holds only a few of them for seconds, so files
and the link to the hub always have descriptors left.  When the limit is reached, a new connection is accepted and
another one closed (``connections``): idle ones first, oldest first, then those that send or read too slowly.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from fairlead_edge.io.local_api.connections import CONNECTIONS, STALLED_SECONDS_MAX, LocalConnections
from fairlead_wire import errors
from fairlead_wire.errors import FairleadError
from fairlead_wire.io import logs
from fairlead_wire.io.acceptor import Acceptor, bound

TLS_HANDSHAKE: Final = b"\x16"
OPENING_SECONDS_MAX: Final = 10.0
"""The timeout for the first byte and the handshake."""
OPENING_MAX: Final = 256
"""Connections that may be opening at once; more are closed."""
HEADER_SECONDS_MAX: Final = 10.0
"""The timeout for the handshake and the first request."""
IDLE_SECONDS_MAX: Final = 75.0
"""How long a connection may stay open after a response without the next complete request."""
CONNECTIONS_MAX: Final = 512
"""Open connections of one port.  Half of them may be watches and a quarter may wait for messages."""
POLL_SECONDS: Final = 5.0
"""How often to check for clients that do not read their responses."""
ACCEPT_RETRY_SECONDS: Final = 1.0
DRAIN_SECONDS_MAX: Final = 2.0
"""How long requests may continue when the program stops.  A publish needs one flush of the disk; only modules waiting
for messages take longer."""
SEND_BUFFER_BYTES: Final = 64 * 1024
"""The kernel's buffer for unread responses (the kernel doubles it); the default is megabytes."""
BACKLOG: Final = 128

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = logs.get("edge.listening")


class CannotListen(FairleadError):
    """The port is in use, or this host has no such address; the text names the setting."""


async def listen(
    app: web.Application,
    *,
    key: str,
    host: str,
    port: int,
    context: ssl.SSLContext | None = None,
    plain: bool = True,
    known: LocalConnections | None = None,
) -> contextlib.AsyncExitStack:
    """Serve ``app``; closing the returned stack drains and stops it.  ``key`` names the setting in errors and logs.

    Without ``context``, plain HTTP is served; with it, TLS, and plain HTTP, too, if ``plain``.  ``known`` tracks the
    connections.
    """
    known = known if known is not None else LocalConnections()

    @web.middleware
    async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
        known.began(request)
        request[CONNECTIONS] = known
        try:
            answer = await handler(request)
        finally:
            known.ended(request)
        if isinstance(answer, web.Response) and isinstance(answer.body, bytes):
            known.make_room(len(answer.body), request.protocol)
        return answer

    app.middlewares.insert(0, note)
    runner = web.AppRunner(
        app,
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=DRAIN_SECONDS_MAX,
        keepalive_timeout=IDLE_SECONDS_MAX,
        auto_decompress=False,  # ``publish_api.read_body`` does it
    )
    await runner.setup()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(runner.cleanup)
        try:
            assert runner.server is not None
            listener = Listener(
                bound(host, port, backlog=BACKLOG),
                runner.server,
                known,
                context=context,
                plain=plain or context is None,
            )
            stack.push_async_callback(listener.close)
            at = listener.address
        except OSError as error:
            raise CannotListen(f"{key} {error.strerror or error}") from None
        _log.info("listening", key=key, host=at[0], port=at[1], tls=context is not None, plain=plain)
        return stack.pop_all()


class Listener:
    """Accepts connections for ``server``; with TLS if the client begins a handshake, and always if not ``plain``."""

    def __init__(
        self,
        listening: list[socket.socket],
        server: web.Server,
        known: LocalConnections,
        *,
        context: ssl.SSLContext | None,
        plain: bool,
    ) -> None:
        self._server = server
        self._known = known
        self._context = context
        self._plain = plain
        self._acceptor = Acceptor(
            listening, lambda connection, peer: self._open(connection), self._end_stalled,
            tick_seconds=POLL_SECONDS, retry_seconds=ACCEPT_RETRY_SECONDS, log=_log, opening_max=OPENING_MAX,
        )  # fmt: skip

    @property
    def address(self) -> tuple[str, int]:
        return self._acceptor.address

    async def close(self) -> None:
        """Stop accepting; open connections are left to their protocols."""
        await self._acceptor.close()

    async def _open(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
            async with asyncio.timeout(OPENING_SECONDS_MAX):
                first = await _first_byte(connection)
                encrypted = first == TLS_HANDSHAKE or not self._plain
                context = self._context if encrypted else None
                if not self._has_room():
                    connection.close()
                    return
                await loop.connect_accepted_socket(self._protocol, connection, ssl=context)
        except (OSError, TimeoutError) as error:
            _log.debug("connection_not_opened", reason=errors.described(error))
            connection.close()
        except BaseException:
            connection.close()
            raise

    def _has_room(self) -> bool:
        open_now = self._server.connections
        if len(open_now) < CONNECTIONS_MAX:
            return True
        expendable = self._known.expendable(open_now, asyncio.get_running_loop().time())
        if expendable is None:
            _log.warning("connections_full", limit=CONNECTIONS_MAX, reason="requests on all of them are being answered")
            return False
        expendable.force_close()
        if expendable.transport is not None:
            expendable.transport.abort()
        return True

    def _end_stalled(self) -> None:
        """Close the connections of clients that do not read their responses."""
        for stalled in self._known.stalled(self._server.connections, asyncio.get_running_loop().time()):
            self._known.close(stalled, "stalled", limit_seconds=STALLED_SECONDS_MAX)

    def _protocol(self) -> asyncio.BaseProtocol:
        made = self._server()
        loop = asyncio.get_running_loop()
        self._known.opened(made, loop.time())
        loop.call_later(HEADER_SECONDS_MAX, self._abort_if_silent, made)
        return made

    def _abort_if_silent(self, protocol: web.RequestHandler) -> None:
        if self._known.is_silent(protocol) and protocol.transport is not None:
            protocol.transport.abort()


async def _first_byte(connection: socket.socket) -> bytes:
    """Peek at the first byte; empty if the peer closed."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    connection.setblocking(False)

    def on_readable() -> None:
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(connection.fileno(), on_readable)
    try:
        await readable
    finally:
        loop.remove_reader(connection.fileno())
    return connection.recv(1, socket.MSG_PEEK)
