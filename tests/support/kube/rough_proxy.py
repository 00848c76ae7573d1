"""A TLS proxy between a client and a real API server that breaks watches at random, as load balancers and networks do.

    async with RoughProxy(cluster, folder, Random(7)) as proxy:
        HubProcess(proxy.kubernetes, folder).start()        # all its requests go through the proxy
        proxy.rough = True                                  # from now on watches are broken

Accidents: *end* (calmly, between lines), *half* (calmly, in the middle of a line), *cut* (reset), *stall* (silent for
ever, nothing is closed), *pause* (silent for a while), *garbage* (a line that is none), *error* (an ERROR event).
Bookmarks are passed on only with ``bookmarks``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import NamedTuple

import aiohttp
from aiohttp import web
from tests.support.joining.pki import Authority
from tests.support.kube.cluster import Cluster
from tests.support.kube.kubernetes import Kubernetes

ACCIDENTS = ("end", "end", "half", "cut", "cut", "stall", "pause", "garbage", "error")
REJECTING = ("garbage", "error")
LIFE_SECONDS = 1.5
"""Of a watch before its accident, at most."""
PAUSE_SECONDS = 1.0
BAD_LINES = {
    "garbage": b'{"type":"ADDED","object":<html>504</html>}\n',
    "error": b'{"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcdserver: request timed out"}}\n',
}


class Harm(NamedTuple):
    """One accident."""

    at: float
    """Of ``time.monotonic``."""
    root: str
    what: str


class RoughProxy:
    """See the module.  Counts what passes: lists and watches by collection, writes by path, conflicts."""

    def __init__(
        self, cluster: Cluster, folder: Path, random: Random, *, accidents: tuple[str, ...] = ACCIDENTS
    ) -> None:
        self._cluster, self._folder, self._random, self._accidents = cluster, folder, random, accidents
        self.rough = False
        self.overloaded = False
        """Answer everything with 503 and ten minutes to wait, and let no watch live."""
        self.bookmarks = True
        self.harms: list[Harm] = []
        self.lists: Counter[str] = Counter()
        self.watches: Counter[str] = Counter()
        self.too_old: Counter[str] = Counter()
        """410s passed on: each is a reason for one list."""
        self.writes: Counter[str] = Counter()
        """Successful writes by path."""
        self.conflicts = 0
        self._rejected: set[str] = set()

    async def __aenter__(self) -> RoughProxy:
        authority = Authority(self._folder / "proxy-pki", "rough proxy")
        pair = authority.issue("proxy", hosts=("127.0.0.1",))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pair.certificate, pair.key)
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        port = self._runner.addresses[0][1]
        trust = ssl.create_default_context(cafile=str(self._cluster.ca))
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust, limit=0))
        config = self._cluster.config(self._cluster.token)
        config["clusters"][0]["cluster"] = {
            "server": f"https://127.0.0.1:{port}",
            "certificate-authority": str(authority.certificate),
        }
        kubeconfig = self._folder / "proxy.kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(json.dumps(config))
        self.kubernetes = Kubernetes(kubeconfig)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if self.overloaded:
            return web.Response(status=503, headers={"Retry-After": "600"})
        headers = {name: request.headers[name] for name in ("Authorization", "Content-Type") if name in request.headers}
        url = f"{self._cluster.server}{request.path_qs}"
        try:
            async with self._session.request(
                request.method, url, data=await request.read() or None, headers=headers
            ) as answer:
                root = request.path.lstrip("/")
                self.too_old[root] += answer.status == 410
                if "watch" in request.query and answer.status == 200:
                    self.watches[root] += 1
                    return await self._watch(request, answer, root)
                if request.method == "GET" and "limit" in request.query:
                    # kopf's own two watches list again by themselves; they only hint at what is watched anyway.
                    ours = "kopf" not in request.headers.get("User-Agent", "")
                    self.lists[root] += ours and request.query["limit"] != "1" and "continue" not in request.query
                elif request.method != "GET":
                    self.writes[root] += answer.status < 300
                    self.conflicts += answer.status == 409
                return web.Response(status=answer.status, body=await answer.read(), content_type=answer.content_type)
        except aiohttp.ClientError as error:
            return web.Response(status=503, text=str(error))

    async def _watch(self, request: web.Request, answer: aiohttp.ClientResponse, root: str) -> web.StreamResponse:
        passed = web.StreamResponse()
        await passed.prepare(request)
        flowing = asyncio.Event()
        flowing.set()
        passing = asyncio.create_task(self._pass(answer, passed, root, flowing))
        try:
            while not passing.done():
                # A moment of the real clock: anywhere in the middle of whatever goes on.
                await asyncio.wait({passing}, timeout=self._random.random() * LIFE_SECONDS)
                if self.overloaded and request.transport is not None:
                    request.transport.abort()
                if not self.rough or passing.done():
                    continue
                what = self._accident(root)
                self.harms.append(Harm(time.monotonic(), root, what))
                if what == "pause":
                    flowing.clear()
                    await asyncio.sleep(self._random.random() * PAUSE_SECONDS)
                    flowing.set()
                    continue
                passing.cancel()
                await asyncio.wait({passing})
                await self._harm(request, passed, what)
                return passed
            return passed
        finally:
            passing.cancel()

    def _accident(self, root: str) -> str:
        """Never two rejections of one collection in a row: that would be a reason for a list."""
        what = self._random.choice(self._accidents)
        if what in REJECTING:
            if root in self._rejected:
                what = "cut"
            else:
                self._rejected.add(root)
        return what

    async def _harm(self, request: web.Request, passed: web.StreamResponse, what: str) -> None:
        with contextlib.suppress(ConnectionError):
            if what in BAD_LINES:
                await passed.write(BAD_LINES[what])
            elif what == "half":
                await passed.write(b'{"type":"MODIFIED","object":{"metadata":{"name":"ha')
            elif what == "cut" and request.transport is not None:
                request.transport.abort()
            elif what == "stall":
                await asyncio.Event().wait()  # until the client leaves: that cancels its handler

    async def _pass(
        self, answer: aiohttp.ClientResponse, passed: web.StreamResponse, root: str, flowing: asyncio.Event
    ) -> None:
        """Forward whole lines only, so that only accidents break a line."""
        with contextlib.suppress(ConnectionError, aiohttp.ClientError):
            async for line in answer.content:
                await flowing.wait()
                if b'"type":"BOOKMARK"' in line and not self.bookmarks:
                    continue
                self.too_old[root] += b'"code":410' in line
                if b'"type":"ERROR"' not in line:
                    self._rejected.discard(root)
                await passed.write(line)
