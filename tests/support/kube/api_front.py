"""A proxy in front of a real API server that responds itself when a test wants it: 429, 403, 410, garbage, or a cut.

async with ApiFront(cluster) as front:
    front.answer("GET", "configmaps", status=429, headers={"Retry-After": "1"})   # once; times=None: always
    client = front.client()
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.support.kube.cluster import Cluster

from fairlead_hub.io.cluster.api_access import ApiAccess
from fairlead_hub.io.cluster.kube import Kube

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _Rule:
    def __init__(self, method: str, part: str, answer: Answer, times: int | None) -> None:
        self.method, self.part, self.answer, self.times = method, part, answer, times


class ApiFront:
    """Forwards everything, except what a rule answers; counts requests."""

    def __init__(self, cluster: Cluster | None = None) -> None:
        self._cluster = cluster
        self._rules: list[_Rule] = []
        self._watching: list[asyncio.Transport] = []
        self.requests: list[tuple[str, str]] = []
        """Method and path with query, in order."""

    async def __aenter__(self) -> ApiFront:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._server = TestServer(app)
        await self._server.start_server()
        self.url = str(self._server.make_url("/")).rstrip("/")
        context = ssl.create_default_context(cafile=str(self._cluster.ca)) if self._cluster else None
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context or True))
        self._clients: list[Kube] = []
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients:
            await client.close()
        self.cut()
        await self._session.close()
        await self._server.close()

    def client(self) -> Kube:
        """A client of the hub that connects through this proxy."""
        client = Kube(ApiAccess(self.url, lambda: {}))
        self._clients.append(client)
        return client

    def answer(
        self,
        method: str,
        part: str,
        *,
        status: int = 200,
        body: bytes = b"{}",
        headers: dict[str, str] | None = None,
        times: int | None = 1,
    ) -> None:
        """Answer the next request of this method whose path and query contain ``part``."""

        async def answer(_: web.Request) -> web.Response:
            return web.Response(status=status, body=body, headers=headers)

        self.answer_with(method, part, answer, times=times)

    def answer_with(self, method: str, part: str, answer: Answer, *, times: int | None = 1) -> None:
        self._rules.append(_Rule(method, part, answer, times))

    def pass_everything(self) -> None:
        self._rules.clear()

    def seen(self, method: str, part: str) -> int:
        """The number of such requests so far."""
        return sum(each == method and part in path for each, path in self.requests)

    def cut(self) -> None:
        """Break every watch that is open now."""
        for transport in self._watching:
            transport.abort()

    @property
    def watches(self) -> int:
        """The number of open watches."""
        return len(self._watching)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path_qs))
        for rule in self._rules:
            if rule.method == request.method and rule.part in request.path_qs:
                if rule.times is not None:
                    rule.times -= 1
                    if not rule.times:
                        self._rules.remove(rule)
                return await rule.answer(request)
        assert self._cluster is not None, f"nothing answers {request.path_qs}"
        return await self.pass_on(request)

    async def pass_on(self, request: web.Request) -> web.StreamResponse:
        """Forward the request to the API server."""
        assert self._cluster is not None
        headers = {"Authorization": f"Bearer {self._cluster.token}"}
        if "Content-Type" in request.headers:
            headers["Content-Type"] = request.headers["Content-Type"]
        url = f"{self._cluster.server}{request.path_qs}"
        body: Any = await request.read() or None
        async with self._session.request(request.method, url, data=body, headers=headers) as answer:
            if "watch" not in request.query:
                return web.Response(status=answer.status, body=await answer.read(), content_type=answer.content_type)
            passed = web.StreamResponse(status=answer.status)
            await passed.prepare(request)
            assert request.transport is not None
            transport = request.transport
            self._watching.append(transport)
            try:
                async for chunk in answer.content.iter_any():
                    await passed.write(chunk)
            except (ConnectionError, aiohttp.ClientError, asyncio.CancelledError):
                return passed
            finally:
                self._watching.remove(transport)
            return passed
