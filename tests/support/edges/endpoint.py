"""An HTTP endpoint for tests: records what was posted, and answers as the test says."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.test_utils import TestServer


@dataclass
class Endpoint:
    """``answers`` are given one after the other, then 200 for ever."""

    url: str = ""
    answers: list[int | web.Response] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        self.bodies.append((await request.read()).decode())
        self.headers.append(dict(request.headers))
        answer = self.answers.pop(0) if self.answers else 200
        return web.Response(status=answer) if isinstance(answer, int) else answer


@contextlib.asynccontextmanager
async def listening() -> AsyncIterator[Endpoint]:
    """On a free port, for every path."""
    endpoint = Endpoint()
    app = web.Application()
    app.router.add_post("/{path:.*}", endpoint.handle)
    server = TestServer(app)
    await server.start_server()
    endpoint.url = str(server.make_url("/hook"))
    try:
        yield endpoint
    finally:
        await server.close()
