"""Limits the connections of a port of the hub's HTTP server: idle connections are closed to make room.

Without a limit they would take file descriptors that nodes and the API server need, and the port for probes is open to
every Pod.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

CONNECTIONS_MAX = 512
"""Per port; more than 100 open pages and their further requests need."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpConnections:
    """The connections of one port."""

    def __init__(self) -> None:
        self._busy: set[object] = set()

    @web.middleware
    async def note(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Record a request on this connection while its answer is being made; for a stream, while it is open."""
        self._busy.add(request.protocol)
        try:
            return await handler(request)
        finally:
            self._busy.discard(request.protocol)

    def make_room(self, server: web.Server) -> None:
        """Close a connection to make room: the oldest idle one, or the oldest of all."""
        stay = [each for each in server.connections if each.transport is not None and not each.transport.is_closing()]
        if len(stay) < CONNECTIONS_MAX:
            return
        found = next((each for each in stay if each not in self._busy), stay[0])
        if found.transport is not None:
            found.transport.abort()
