"""Ports: accepts connections, lets ``admission`` say which may stay, and hands each to the HTTP server.

Connections are counted from the moment they are accepted, handshakes too.  ``raise_descriptors`` first takes what the
system allows this process; ``admission.limits_of`` shares it out.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
from collections.abc import Awaitable, Callable, Hashable

from aiohttp import web

from fairlead_messaging.api.errors import Unavailable
from fairlead_messaging.server.admission import HEAD_SECONDS, Admission, Limits, Verdict
from fairlead_messaging.server.io.metrics import Metrics
from fairlead_wire.io import logs

DESCRIPTORS_MAX = 65_536
BACKLOG = 1024
ACCEPT_RETRY_SECONDS = 0.1
LOOK_SECONDS = 0.5
"""How often connections that wait too long are looked for."""
PROBE_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = logs.get("messaging.listening")


def raise_descriptors() -> int:
    """Let this process open what the system allows it, within reason; returns how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return DESCRIPTORS_MAX if soft == resource.RLIM_INFINITY else soft


class _Connection:
    """One accepted connection; it has a ``protocol`` once it is handed to the HTTP server."""

    __slots__ = ("_accepted", "protocol")

    def __init__(self, accepted: socket.socket) -> None:
        self._accepted = accepted
        self.protocol: web.RequestHandler | None = None

    def close(self) -> None:
        if self.protocol is not None and self.protocol.transport is not None:
            self.protocol.transport.abort()
        else:
            # In its handshake: the loop owns the descriptor, and closes it when it sees the end.
            with contextlib.suppress(OSError):
                self._accepted.shutdown(socket.SHUT_RDWR)


class Gate:
    """The connections of one port, named ``port`` in metrics."""

    def __init__(self, limits: Limits, metrics: Metrics, port: str) -> None:
        self._admission = Admission(limits)
        self._of: dict[object, _Connection] = {}
        self._closed = {why: metrics.closed_connections.labels(port, why) for why in ("late", "room", "refused")}
        metrics.connections.labels(port).set_function(lambda: len(self._admission))

    @web.middleware
    async def note(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Raises: Unavailable on a connection that was admitted for probes alone."""
        connection = self._of.get(request.protocol)
        if connection is None:
            return await handler(request)
        self._admission.begin(connection)
        try:
            if self._admission.is_for_probes(connection):
                return await _probe(request, handler)
            return await handler(request)
        finally:
            self._admission.rest(connection, asyncio.get_running_loop().time())

    def watch(self, server: web.Server) -> None:
        """Hear of the ends of its connections."""
        ended = server.connection_lost

        def connection_lost(protocol: web.RequestHandler, exc: BaseException | None = None) -> None:
            ended(protocol, exc)
            connection = self._of.pop(protocol, None)
            if connection is not None:
                self._admission.leave(connection)

        server.connection_lost = connection_lost  # type: ignore[method-assign,assignment]

    def admit(self, connection: _Connection, peer: str, now: float) -> bool:
        """Whether it may stay; others may be closed for it."""
        verdict, closed = self._admission.admit(connection, peer, now)
        self._close(closed, "room")
        if verdict is Verdict.REFUSED:
            self._closed["refused"].inc()
        return verdict is not Verdict.REFUSED

    def opened(self, connection: _Connection, protocol: web.RequestHandler) -> None:
        connection.protocol = protocol
        self._of[protocol] = connection

    def failed(self, connection: _Connection) -> None:
        """It was never opened."""
        self._admission.leave(connection)
        self._of.pop(connection.protocol, None)

    def close_overdue(self, now: float) -> None:
        self._close(self._admission.overdue(now), "late")

    def _close(self, keys: list[Hashable], why: str) -> None:
        for key in keys:
            assert isinstance(key, _Connection)
            key.close()
        self._closed[why].inc(len(keys))


async def _probe(request: web.Request, handler: Handler) -> web.StreamResponse:
    if request.path not in PROBE_PATHS:
        raise Unavailable("too many connections are open", code="too_many_connections", retry_after_seconds=5.0)
    response = await handler(request)
    response.force_close()
    return response


class Port:
    """Listens until ``close``; connections that are open then are the HTTP server's business.

    Raises: OSError when the address cannot be had.
    """

    def __init__(self, runner: web.AppRunner, gate: Gate, host: str, port: int, context: ssl.SSLContext | None) -> None:
        assert runner.server is not None
        self._server = runner.server
        self._gate = gate
        gate.watch(self._server)
        self._context = context
        self._sockets = _bound(host, port)
        self._tasks = [asyncio.create_task(self._accept(each)) for each in self._sockets]
        self._tasks.append(asyncio.create_task(self._look()))
        self._opening: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._sockets[0].getsockname()[:2]
        return host, port

    async def close(self) -> None:
        """Accept nothing more."""
        tasks = [*self._tasks, *self._opening]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in self._sockets:
            each.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as error:  # no descriptor is left: others hold them, and those that are open will end
                _log.warning("accept_failed", reason=str(error), remedy="raise the limit of open files")
                await asyncio.sleep(ACCEPT_RETRY_SECONDS)
                continue
            connection = _Connection(accepted)
            if not self._gate.admit(connection, str(address[0]), loop.time()):
                accepted.close()
                continue
            task = asyncio.create_task(self._open(connection, accepted))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, connection: _Connection, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        accepted.setblocking(False)
        timeout = HEAD_SECONDS if self._context is not None else None
        try:
            await loop.connect_accepted_socket(
                lambda: self._made(connection), accepted, ssl=self._context, ssl_handshake_timeout=timeout
            )
        except OSError as error:
            _log.debug("connection_not_opened", reason=f"{type(error).__name__}: {error}")
            self._gate.failed(connection)
            connection.close()
        except BaseException:
            self._gate.failed(connection)
            connection.close()
            raise

    def _made(self, connection: _Connection) -> web.RequestHandler:
        protocol = self._server()
        self._gate.opened(connection, protocol)
        return protocol

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._gate.close_overdue(loop.time())


def _bound(host: str, port: int) -> list[socket.socket]:
    """Listening sockets, one for each address of ``host``; port 0 takes free ones.  Raises: OSError."""
    made: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, at in dict.fromkeys(found):
            made.append(opened := socket.socket(family, kind, protocol))
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            opened.bind(at)
            opened.listen(BACKLOG)
            opened.setblocking(False)
    except OSError as error:
        for each in made:
            each.close()
        raise OSError(error.errno, f"{host}:{port}: {error.strerror or error}") from error
    return made
