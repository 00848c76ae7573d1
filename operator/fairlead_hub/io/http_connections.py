"""How many connections a port of the hub's HTTP may have: those that hold one and ask nothing make way.

Without a bound they would take descriptors that nodes and the API server need, and the port for probes is open to
every Pod.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

CONNECTIONS_MAX = 512
"""Of one port; more than 100 open pages and those that ask for pages need."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpConnections:
    """Of one port."""

    def __init__(self) -> None:
        self._busy: set[object] = set()

    @web.middleware
    async def note(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """This connection has asked, and its answer is being made; an open stream's is."""
        self._busy.add(request.protocol)
        try:
            return await handler(request)
        finally:
            self._busy.discard(request.protocol)

    def make_room(self, server: web.Server) -> None:
        """For one more: the oldest that waits for nothing ends, else the oldest of all."""
        stay = [each for each in server.connections if each.transport is not None and not each.transport.is_closing()]
        if len(stay) < CONNECTIONS_MAX:
            return
        found = next((each for each in stay if each not in self._busy), stay[0])
        if found.transport is not None:
            found.transport.abort()
