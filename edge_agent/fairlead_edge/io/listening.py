"""Ports the agent listens on: plain HTTP, TLS, or both on one.

With mutual TLS on the link the local API is asked with a token.  On loopback both forms share the port: plain HTTP
for applications, which then need no certificates, and TLS for kubectl, which sends no token over plain HTTP.
They are told apart by the first byte: 0x16 opens a TLS handshake, and no HTTP request.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from fairlead_wire.errors import FairleadError
from fairlead_wire.io import logs

TLS_HANDSHAKE: Final = b"\x16"
OPENING_SECONDS_MAX: Final = 10.0
"""How long a connection may stay without its first byte, or its handshake."""
OPENING_MAX: Final = 256
"""Connections that may be opening at once; more are closed."""
ACCEPT_RETRY_SECONDS: Final = 1.0
DRAIN_SECONDS_MAX: Final = 2.0
"""How long requests that are being answered may go on when the program ends; a publish needs one flush of the disk,
what lasts longer is somebody waiting for messages."""
BACKLOG: Final = 128
REASON_CHARS_MAX: Final = 200

_log = logs.get("edge.listening")
_http_log = logging.getLogger("fairlead.edge.http")


class _WithoutClientsFaults(logging.Filter):
    """What a client sent that is no HTTP is its fault, not an error of ours with a traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError):
            return True
        _log.info("malformed_request", code=error.code, reason=error.message.splitlines()[0][:REASON_CHARS_MAX])
        return False


_http_log.addFilter(_WithoutClientsFaults())


class CannotListen(FairleadError):
    """The port is taken or not ours; the text names the settings key."""


async def listen(
    app: web.Application,
    *,
    key: str,
    host: str,
    port: int,
    context: ssl.SSLContext | None = None,
    plain: bool = True,
) -> contextlib.AsyncExitStack:
    """Serve ``app``; close what is returned to drain and stop.  ``key`` names the setting in errors and logs.

    ``context`` None: plain HTTP alone; with a context and ``plain``: both; without ``plain``: TLS alone.
    """
    runner = web.AppRunner(
        app, access_log=None, logger=_http_log, handler_cancellation=True, shutdown_timeout=DRAIN_SECONDS_MAX
    )
    await runner.setup()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(runner.cleanup)
        try:
            if context is not None and plain:
                assert runner.server is not None
                shared = SharedPort(bound(host, port), runner.server, context)
                stack.push_async_callback(shared.close)
                at = shared.address
            else:
                await web.TCPSite(runner, host, port, ssl_context=context, backlog=BACKLOG).start()
                at = runner.addresses[0]
        except OSError as error:
            raise CannotListen(f"{key} {host}:{port}: {error.strerror or error}") from None
        _log.info("listening", key=key, host=at[0], port=at[1], tls=context is not None, plain=plain)
        return stack.pop_all()


class SharedPort:
    """Accepts connections on a bound socket and gives each to ``protocols``, behind TLS when it speaks TLS."""

    def __init__(
        self, listening: socket.socket, protocols: Callable[[], asyncio.BaseProtocol], context: ssl.SSLContext
    ) -> None:
        self._socket = listening
        self._protocols = protocols
        self._context = context
        self._opening: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept())

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._socket.getsockname()[:2]
        return host, port

    async def close(self) -> None:
        """Accept nothing more; connections that are open are their protocols' business."""
        tasks = [self._accepting, *self._opening]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._socket.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._socket)
            except OSError as error:  # too many open files: those that are open will end
                _log.warning("accept_failed", reason=str(error))
                await asyncio.sleep(ACCEPT_RETRY_SECONDS)
                continue
            if len(self._opening) >= OPENING_MAX:
                connection.close()
                continue
            task = asyncio.create_task(self._open(connection))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(OPENING_SECONDS_MAX):
                first = await _first_byte(connection)
                context = self._context if first == TLS_HANDSHAKE else None
                await loop.connect_accepted_socket(self._protocols, connection, ssl=context)
        except (OSError, TimeoutError) as error:
            _log.debug("connection_not_opened", reason=f"{type(error).__name__}: {error}")
            connection.close()
        except BaseException:
            connection.close()
            raise


async def _first_byte(connection: socket.socket) -> bytes:
    """Look at the first byte and leave it there; empty when the peer closed."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    connection.setblocking(False)

    def look() -> None:
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(connection.fileno(), look)
    try:
        await readable
    finally:
        loop.remove_reader(connection.fileno())
    return connection.recv(1, socket.MSG_PEEK)


def bound(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one.  Raises ``OSError``."""
    family, kind, protocol, _, at = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(at)
        made.listen(BACKLOG)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made
