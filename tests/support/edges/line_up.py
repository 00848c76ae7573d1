"""The path upstream with real parts: the agent, a link of any kind, the hub's server, the messaging service.

async with line_up(tmp_path, routes={...}) as up:
    await up.publish("alarms", 1)
    await up.until(lambda: …)
    await up.rows("telemetry")
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.hubs.hub_core import Core
from tests.support.hubs.live import ROUTES
from tests.support.lines.slow_link import SlowLink
from tests.support.topics.messaging import Topics, serving

from fairlead_hub.io.io_counts import IoCounts
from fairlead_hub.io.link.link_server import LinkServer
from fairlead_hub.io.messaging.upstream_publisher import UpstreamPublisher
from fairlead_hub.io.ready_loop import ReadyLoop
from fairlead_hub.status import status_cache
from fairlead_messaging.client.io.async_client import AsyncClient

NODE = "edge-1"
WAIT_SECONDS = 120.0
MANIFEST = {"schemaVersion": "1.1", "storeAndForwardConfiguration": {"timeToLiveSecs": 7200}}
FAST_BYTES_PER_SECOND = 1e9


class LineUp:
    """See the module."""

    def __init__(self, agent: EdgeAgent, line: SlowLink, core: Core, topics: Topics, counts: IoCounts) -> None:
        self.agent, self.line, self.core, self.topics, self.counts = agent, line, core, topics, counts

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return await asyncio.to_thread(functools.partial(self.agent.ask, method, path, body))

    async def publish(self, kind: str, count: int = 1, body: Any = 1) -> list[str]:
        """Messages of this kind (property ``kind``, which routes name); their ids."""
        each = {"source": "/messages/modules/m/outputs/o", "properties": {"kind": kind}, "body": body}
        status, answer = await self.ask("POST", "/v1/messages", {"messages": [each] * count})
        assert status == 200, answer
        return [result["id"] for result in answer["results"]]

    async def status(self) -> dict[str, Any]:
        status, answer = await self.ask("GET", "/v1/status")
        assert status == 200, answer
        found: dict[str, Any] = answer
        return found

    async def rows(self, topic: str) -> list[dict[str, Any]]:
        """All envelopes in a topic, in order."""
        found: list[dict[str, Any]] = []
        start = None
        while True:
            page = await self.topics.poll(topic, startFrom=start, inclusive=False, limit=10_000)
            if not page.payloads:
                return found
            found += [msgspec.json.decode(payload) for payload in page.payloads]
            start = page.ids[-1]

    async def until(self, condition: Callable[[], Awaitable[Any]], seconds: float = WAIT_SECONDS) -> None:
        async with asyncio.timeout(seconds):
            while not await condition():  # noqa: ASYNC110 - asked over HTTP, there is nothing to wait on
                await asyncio.sleep(0.05)

    async def drained(self) -> None:
        async def empty() -> bool:
            return not any(queue["length"] for queue in (await self.status())["queues"])

        await self.until(empty)


@contextlib.asynccontextmanager
async def line_up(
    folder: Path,
    routes: dict[str, Any],
    *,
    bytes_per_second: float = FAST_BYTES_PER_SECOND,
    delay_seconds: float = 0.0,
    **settings: str,
) -> AsyncIterator[LineUp]:
    """``routes`` of the manifest; ``settings`` of the agent."""
    async with contextlib.AsyncExitStack() as stack:
        topics = await stack.enter_async_context(serving())
        client = await stack.enter_async_context(AsyncClient(topics.url))
        core, counts = Core(NODE), IoCounts()
        core.put("main", ROUTES, namespace="", spec={**MANIFEST, "routes": routes})
        topics_named = sorted({each["topic"] for each in routes.values() if "topic" in each})
        there = status_cache.Observed(version="1", generation=1, status={"grantedTopics": topics_named}, head={})
        core.hub.documents.edge_node_observed(NODE, there, {}, core.now)  # written down by a hub before this one
        window = core.hub.settings.link.upstream_window
        desk = UpstreamPublisher(core.hub, client, window=window, counts=counts)
        server = LinkServer(core.hub, desk, context=None, on_stale=lambda node, fence: False)
        core.has_shell = True
        ReadyLoop(core.hub, server)
        port = await server.start("127.0.0.1", 0)
        stack.push_async_callback(server.drain)
        await desk.ensure_topics()
        line = await stack.enter_async_context(
            SlowLink(port, bytes_per_second=bytes_per_second, delay_seconds=delay_seconds)
        )
        agent = EdgeAgent(folder, line.url, node=NODE, **settings)
        await asyncio.to_thread(agent.start)
        stack.callback(agent.kill)
        up = LineUp(agent, line, core, topics, counts)

        async def routed() -> bool:
            return any(found["accepted"] for found in (await up.status())["routes"].values())

        await up.until(routed)
        yield up


def route(kind: str, **fields: Any) -> dict[str, Any]:
    """A route that sends messages of this kind upstream."""
    return {"route": f"FROM /messages/* WHERE kind = '{kind}' INTO $upstream", **fields}
