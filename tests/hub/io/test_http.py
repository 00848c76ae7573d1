"""Health, metrics and accounts over plain HTTP."""

from __future__ import annotations

import aiohttp
import pytest
from aiohttp import web
from tests.support.hub_core import CONFIG_MAPS, Core

from fairlead_hub.io import http


@pytest.fixture
async def served():
    core, health, app = Core("edge-1"), http.Health(), web.Application()
    core.rule(CONFIG_MAPS)
    one = core.put("a")
    http.account_routes(app, core.hub, lambda: core.now)
    health.add_to(app, lambda: b"metric 1\n")
    runner, port = await http.listen(app, "127.0.0.1", 0)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
        yield core, health, client, one
    await runner.cleanup()


async def answer(client, path):
    async with client.get(path) as got:
        return got.status, await (got.json() if got.content_type == "application/json" else got.text())


async def test_ready_only_when_serving(served):
    """Alive from the start, ready when nodes are served; the reason is in the body."""
    _, health, client, _ = served
    assert await answer(client, "/healthz") == (200, "ok\n")
    assert await answer(client, "/readyz") == (503, "starting\n")
    health.not_ready = ""
    assert await answer(client, "/readyz") == (200, "ok\n")
    assert await answer(client, "/metrics") == (200, "metric 1\n")


async def test_accounts(served):
    """All nodes, one node, one object."""
    core, _, client, one = served
    status, found = await answer(client, "/v1/nodes")
    assert status == 200 and [(row["node"], row["wanted"]) for row in found["nodes"]] == [("edge-1", 1)]
    assert (await answer(client, "/v1/nodes/edge-1"))[1]["connected"] is False
    edge = core.connect()
    edge.ack(*edge.sent())
    resource = one.resource
    path = f"/v1/explain?node=edge-1&kind=configmap&namespace={resource.namespace}&name={resource.name}"
    assert (await answer(client, path))[1]["code"] == "held"


async def test_bad_questions_get_a_reason(served):
    """404 for a node nobody knows, 400 for what is missing."""
    _, _, client, _ = served
    status, found = await answer(client, "/v1/nodes/nobody")
    assert (status, found["error"]["code"]) == (404, "no_node")
    status, found = await answer(client, "/v1/explain?node=edge-1&kind=x")
    assert status == 400 and found["error"]["message"].startswith("name: needed")
