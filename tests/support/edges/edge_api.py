"""The edge's local API over a store in memory, served by a real HTTP server."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer

from fairlead_edge.io.local_api import server
from fairlead_edge.io.local_api.access import AccessGuard
from fairlead_edge.io.local_api.objects_api import ObjectsApi
from fairlead_edge.objects.memory_metastore import MemoryMetastore
from fairlead_edge.objects.metastore import Put, Remove

TOKEN = "the-token"


class Api:
    """A client of a running API; ``store`` is what it serves."""

    def __init__(
        self, client: TestClient[web.Request, web.Application], store: MemoryMetastore, objects: ObjectsApi
    ) -> None:
        self.client = client
        self.store = store
        self.objects = objects

    async def hold(self, *writes: Put | Remove) -> None:
        await self.store.apply(list(writes), now=0.0)

    async def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, Any]:
        """Status and JSON body."""
        answer = await self.client.request(method, path, headers=headers)
        text = await answer.text()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text

    async def get(self, path: str, **headers: str) -> Any:
        """The body of an answer that must be 200."""
        status, body = await self.ask(path, **headers)
        assert status == 200, body
        return body

    async def names(self, path: str, **headers: str) -> list[str]:
        return [item["metadata"]["name"] for item in (await self.get(path, **headers))["items"]]

    async def watch(self, path: str, **headers: str) -> ClientResponse:
        answer = await self.client.get(path, headers=headers)
        assert answer.status == 200, await answer.text()
        return answer


async def event(watch: ClientResponse) -> dict[str, Any]:
    """The next event of a watch; {} when it ended."""
    line = await watch.content.readline()
    found: dict[str, Any] = json.loads(line) if line else {}
    return found


@contextlib.asynccontextmanager
async def serving(*, required: bool = False, unready: str = "") -> AsyncIterator[Api]:
    """``required``: everything needs the token, as with mutual TLS; ``unready``: why it is not ready."""
    store = MemoryMetastore(version=1000)
    guard = AccessGuard(TOKEN, required=required)
    objects = ObjectsApi(store, agent="1.2", age_of=lambda _: 7.0, secrets_allowed=guard.knows, statuses=store.statuses)

    async def status() -> dict[str, Any]:
        return {"node": "edge-1"}

    async def metrics() -> str:
        return "up 1\n"

    app = server.application(guard, status=status, metrics=metrics, unready=lambda: unready, parts=[objects.add_routes])
    async with TestClient(TestServer(app)) as client:
        yield Api(client, store, objects)
