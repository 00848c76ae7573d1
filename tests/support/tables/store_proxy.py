"""A proxy before a real object store or catalog: counts requests, loses or invents responses to commits.

with StoreProxy(store, folder) as proxy:
    proxy.mishaps(["lost", "503"])
    table = proxy.place("rows")

A separate process, because a library that waits may hold Python's lock. The signature of a request covers its
Host header, which is forwarded unchanged.

python -m tests.support.tables.store_proxy PORT STORE-PORT
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
from aiohttp import web
from tests.support.processes import Running, free_ports, start, wait_until
from tests.support.tables.object_store import ObjectStore
from tests.support.tables.rest_catalog import RestCatalog
from yarl import URL

from fairlead_ingest.table.store_path import StorePath, parse

SLOW_DOWN: Final = "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
CONFLICT: Final = "<Error><Code>ConditionalRequestConflict</Code><Message>Try again.</Message></Error>"
BODY_MAX: Final = 64 * 1024 * 1024
CONTROL: Final = "/-/proxy"
READY_SECONDS: Final = 60.0
ROOT: Final = Path(__file__).resolve().parents[3]


class StoreProxy:
    """`mishaps` say what happens to the next commits, in this order: `lost` (the store has it, the answer is not sent),
    `503`, `409` (it does not reach the store), "" (nothing)."""

    def __init__(self, store: ObjectStore | RestCatalog, folder: Path) -> None:
        self._store = store
        (self._port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self._port}"
        self._folder = folder
        self._running: Running | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.support.tables.store_proxy", str(self._port), str(self._store.port)]
        running = self._running = start("store-proxy", command, self._folder / "proxy.log", folder=ROOT)

        def up() -> bool:
            running.require_alive()
            return self.requests() >= 0

        wait_until("the proxy answers", up, seconds=READY_SECONDS, describe=running.tail)
        return self

    def __exit__(self, *_: object) -> None:
        if self._running is not None:
            self._running.kill()

    def place(self, path: str) -> StorePath:
        """Like `ObjectStore.place`, through this proxy."""
        assert isinstance(self._store, ObjectStore)
        direct = self._store.place(path)
        fields = {name: getattr(direct.storage, name) for name in direct.storage.__struct_fields__}
        return parse(str(direct), type(direct.storage)(**{**fields, "endpoint_url": self.url}))

    def mishaps(self, names: list[str]) -> None:
        self._control({"mishaps": names})

    def weather(
        self, *, delay: tuple[float, float] = (0.0, 0.0), busy: float = 0.0, resets: float = 0.0, lost: float = 0.0
    ) -> None:
        """From now on each response takes this long (in seconds); these shares of requests get 503, or do not reach
        the store, or (only writes) are done and their response is lost."""
        self._control({"weather": [*delay, busy, resets, lost]})

    def happened(self) -> Counter[str]:
        return Counter(self._control({})["happened"])

    def requests(self) -> int:
        """The number of requests so far."""
        return int(self._control({})["requests"])

    def bytes_read(self) -> int:
        """The bytes that clients have read so far."""
        return int(self._control({})["bytes"])

    def _control(self, said: dict[str, Any]) -> dict[str, Any]:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.url}{CONTROL}", data=json.dumps(said).encode(), timeout=60) as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found


class _Proxy:
    """The server in the separate process."""

    def __init__(self, store_port: int) -> None:
        self._store = f"http://127.0.0.1:{store_port}"
        self._mishaps: list[str] = []
        self._happened: Counter[str] = Counter()
        self._requests = 0
        self._bytes = 0
        self._weather = [0.0] * 5
        self._chance = random.Random(1)

    async def serve(self, port: int) -> None:
        async with aiohttp.ClientSession(auto_decompress=False) as self._session:
            app = web.Application(client_max_size=BODY_MAX)
            app.router.add_post(CONTROL, self._control)
            app.router.add_route("*", "/{path:.*}", self._hand_on)
            runner = web.AppRunner(app)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", port).start()
            await asyncio.Event().wait()

    async def _control(self, request: web.Request) -> web.Response:
        said = await request.json()
        self._mishaps = said.get("mishaps", self._mishaps)
        self._weather = said.get("weather", self._weather)
        return web.json_response({"happened": self._happened, "requests": self._requests, "bytes": self._bytes})

    async def _hand_on(self, request: web.Request) -> web.StreamResponse:
        self._requests += 1
        is_of_store = request.method == "PUT" and "/_delta_log/" in request.path and request.path.endswith(".json")
        is_commit = is_of_store or (request.method == "POST" and "/tables/" in request.path)
        mishap = self._mishaps.pop(0) if is_commit and self._mishaps else ""
        least, most, busy, resets, lost = self._weather
        await asyncio.sleep(self._chance.uniform(least, most))
        fate = self._chance.random()
        if not mishap and fate < busy:
            mishap = "503"
        elif not mishap and fate < busy + resets:
            self._happened["reset"] += 1
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        elif not mishap and request.method in ("PUT", "POST", "DELETE") and fate < busy + resets + lost:
            mishap = "lost"
        self._happened[mishap] += 1
        if mishap == "503":
            return web.Response(status=503, text=SLOW_DOWN, content_type="application/xml")
        if mishap == "409":
            return web.Response(status=409, text=CONFLICT, content_type="application/xml")
        body = await request.read()
        address = URL(f"{self._store}{request.raw_path}", encoded=True)
        async with self._session.request(
            request.method, address, headers=request.headers, data=body, allow_redirects=False
        ) as answer:
            content = await answer.read()
            self._bytes += len(content)
            if mishap == "lost" and answer.status < 300:
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            dropped = ("transfer-encoding", "content-length", "connection")
            headers = {name: value for name, value in answer.headers.items() if name.lower() not in dropped}
            if request.method == "HEAD":
                headers["Content-Length"] = answer.headers.get("Content-Length", "0")
            return web.Response(status=answer.status, body=content, headers=headers)


if __name__ == "__main__":
    asyncio.run(_Proxy(int(sys.argv[2])).serve(int(sys.argv[1])))
