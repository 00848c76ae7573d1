"""Ports: accepts connections, asks ``admission`` which may stay, and hands them to the HTTP server.

Connections count from the moment they are accepted, before their TLS handshake.  ``raise_descriptors`` raises the limit
of file descriptors as far as the system allows, and ``admission.limits_of`` divides them.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any

from aiohttp import web

from fairlead_messaging.api.errors import Unavailable
from fairlead_messaging.server.admission import HEAD_SECONDS, Admission, AdmissionVerdict, ConnectionLimits
from fairlead_messaging.server.io.metrics import MessagingMetrics
from fairlead_wire import errors
from fairlead_wire.io import logs
from fairlead_wire.io.acceptor import Acceptor, bound

DESCRIPTORS_MAX = 65_536
BACKLOG = 1024
ACCEPT_RETRY_SECONDS = 0.1
CHECK_SECONDS = 0.5
"""How often overdue connections are closed."""
PROBE_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = logs.get("messaging.listening")


def raise_descriptors() -> int:
    """Raise the limit of open files as far as the system allows, within reason; returns the limit."""
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
            # During the handshake the event loop owns the descriptor, and closes it when it sees the end.
            with contextlib.suppress(OSError):
                self._accepted.shutdown(socket.SHUT_RDWR)


class ConnectionGate:
    """The connections of one port, named ``port`` in metrics."""

    def __init__(self, limits: ConnectionLimits, metrics: MessagingMetrics, port: str) -> None:
        self._admission = Admission(limits)
        self._of: dict[object, _Connection] = {}
        self._closed = {why: metrics.closed_connections.labels(port, why) for why in ("late", "room", "refused")}
        metrics.connections.labels(port).set_function(lambda: len(self._admission))

    @web.middleware
    async def note(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Middleware.  Raises: Unavailable on a connection that was admitted for probes only."""
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
        """Have this gate notified when a connection of the server ends."""
        ended = server.connection_lost

        def connection_lost(protocol: web.RequestHandler, exc: BaseException | None = None) -> None:
            ended(protocol, exc)
            connection = self._of.pop(protocol, None)
            if connection is not None:
                self._admission.leave(connection)

        server.connection_lost = connection_lost  # type: ignore[method-assign,assignment]

    def admit(self, connection: _Connection, peer: str, now: float) -> bool:
        """Whether the connection may stay; others may be closed to make room for it."""
        verdict, closed = self._admission.admit(connection, peer, now)
        self._close(closed, "room")
        if verdict is AdmissionVerdict.REFUSED:
            self._closed["refused"].inc()
        return verdict is not AdmissionVerdict.REFUSED

    def opened(self, connection: _Connection, protocol: web.RequestHandler) -> None:
        connection.protocol = protocol
        self._of[protocol] = connection

    def failed(self, connection: _Connection) -> None:
        """The connection was never opened."""
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
    """Listens until ``close``; the HTTP server closes the open connections.

    Raises: OSError if it cannot listen on the address.
    """

    def __init__(
        self, runner: web.AppRunner, gate: ConnectionGate, host: str, port: int, context: ssl.SSLContext | None
    ) -> None:
        assert runner.server is not None
        self._server = runner.server
        self._gate = gate
        gate.watch(self._server)
        self._context = context
        self._acceptor = Acceptor(
            bound(host, port, backlog=BACKLOG), self._accepted, self._close_overdue,
            tick_seconds=CHECK_SECONDS, retry_seconds=ACCEPT_RETRY_SECONDS, log=_log,
        )  # fmt: skip

    @property
    def address(self) -> tuple[str, int]:
        return self._acceptor.address

    async def close(self) -> None:
        """Accept no more connections."""
        await self._acceptor.close()

    def _accepted(self, accepted: socket.socket, peer: str) -> Coroutine[Any, Any, None] | None:
        connection = _Connection(accepted)
        if not self._gate.admit(connection, peer, asyncio.get_running_loop().time()):
            accepted.close()
            return None
        return self._open(connection, accepted)

    async def _open(self, connection: _Connection, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        accepted.setblocking(False)
        timeout = HEAD_SECONDS if self._context is not None else None
        try:
            await loop.connect_accepted_socket(
                lambda: self._made(connection), accepted, ssl=self._context, ssl_handshake_timeout=timeout
            )
        except OSError as error:
            _log.debug("connection_not_opened", reason=errors.described(error))
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

    def _close_overdue(self) -> None:
        self._gate.close_overdue(asyncio.get_running_loop().time())
