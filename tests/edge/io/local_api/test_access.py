"""Who asks the local API: what each may do where modules have tokens of their own, over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from tests.support.edges.upstream import FakeHub, body, open_upstream

from fairlead_edge import module_tokens
from fairlead_edge.io.local_api import publish_api, server
from fairlead_edge.io.local_api.access import AccessGuard
from fairlead_edge.module_tokens import line

TOKENS = module_tokens.parse("\n".join([line("filter", "of-filter"), line("pump", "of-pump")]))
IN = "/v1/modules/filter/inputs/in"


class Node:
    """The local API of a node with two modules; ``ask`` as the holder of a token."""

    def __init__(self, client: TestClient[web.Request, web.Application]) -> None:
        self._client = client

    async def ask(self, method: str, path: str, token: str = "", content: bytes | None = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with self._client.request(method, path, headers=headers, data=content) as answer:
            return answer.status, await answer.json()

    async def publish(self, token: str, *messages: dict[str, Any]) -> tuple[int, Any]:
        return await self.ask("POST", "/v1/messages", token, body(*messages))


@pytest.fixture(params=[False, True], ids=["insecure", "mtls"])
async def node(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Node]:
    upstream = open_upstream(tmp_path / "outbox.db", FakeHub())
    guard = AccessGuard("of-agent", required=request.param, modules=lambda: TOKENS)

    async def status() -> dict[str, Any]:
        return {}

    async def metrics() -> str:
        return ""

    app = server.application(
        guard, status=status, metrics=metrics, unready=lambda: "",
        parts=[lambda app: publish_api.add_routes(app, upstream, guard)],
    )  # fmt: skip
    async with TestClient(TestServer(app)) as client:
        yield Node(client)
    await upstream.outbox.close()


def to_filter(**more: Any) -> dict[str, Any]:
    return {"properties": {"endpoint": "edge-1/filter/in"}, **more}


async def test_module_publishes_as_itself_and_takes_its_own_messages(node: Node) -> None:
    message = {**to_filter(), "source": ""}
    status, answer = await node.publish("of-pump", message)
    assert status == 200 and "id" in answer["results"][0]
    for token, wanted in (("of-pump", 403), ("of-agent", 403), ("", 401)):
        for verb, path in (("GET", f"{IN}/messages"), ("POST", f"{IN}/ack"), ("POST", f"{IN}/abandon")):
            status, answer = await node.ask(verb, path, token, b'{"ids": []}' if verb == "POST" else None)
            assert status == wanted, (token, path, answer)
            assert wanted == 401 or "module filter" in answer["error"]["message"]
            assert "not known" not in answer["error"]["message"]
    status, answer = await node.ask("GET", f"{IN}/messages", "of-filter")
    [taken] = answer["messages"]
    assert taken["source"] == "/messages/modules/pump"
    assert taken["systemProperties"]["connectionModuleId"] == "pump"
    assert taken["systemProperties"]["connectionDeviceId"] == "edge-1"


async def test_no_other_publishes_as_a_module(node: Node) -> None:
    claim = {"source": "/messages/modules/filter/outputs/o"}
    for token in ("of-pump", "of-agent"):
        status, answer = await node.publish(token, claim)
        assert (status, answer["error"]["code"]) == (403, "forbidden_source")
        assert "module filter" in answer["error"]["message"] or "as module filter" in answer["error"]["message"]
    status, answer = await node.publish("of-agent", claim, {"source": "/messages/modules/other"})
    assert status == 200
    assert [("error" in each) for each in answer["results"]] == [True, False]


async def test_device_behind_a_module_is_marked(node: Node) -> None:
    device = {"source": "/messages", "systemProperties": {"connectionDeviceId": "sensor-7"}}
    assert (await node.publish("of-pump", {**to_filter(), **device}))[0] == 200
    _, answer = await node.ask("GET", f"{IN}/messages", "of-filter")
    [taken] = answer["messages"]
    properties = taken["systemProperties"]
    assert (taken["source"], properties["connectionDeviceId"], properties["connectionModuleId"]) == (
        "/messages", "sensor-7", "pump",
    )  # fmt: skip


async def test_unknown_token_is_refused(node: Node) -> None:
    """Also where no token would be needed: one that is shown and not known is a mistake or an attack."""
    for path in ("/v1/status", f"{IN}/messages", "/v1/deadletters"):
        status, answer = await node.ask("GET", path, "of-stranger")
        assert status == 401 and "of-stranger" not in str(answer)
        assert "the token is not known here (it may have been replaced)" in answer["error"]["message"]


async def test_dead_letters_are_the_agents(node: Node) -> None:
    for token, wanted in (("of-agent", 200), ("of-filter", 403), ("", 401)):
        assert (await node.ask("GET", "/v1/deadletters", token))[0] == wanted
        assert (await node.ask("POST", "/v1/deadletters/replay", token, b""))[0] == wanted


async def test_idempotency_keys_are_each_modules_own(node: Node) -> None:
    headers = [{"Authorization": f"Bearer {token}", "Idempotency-Key": "k"} for token in ("of-filter", "of-pump")]
    content = body({"source": ""})
    ids = []
    for each in (*headers, headers[0]):
        async with node._client.post("/v1/messages", data=content, headers=each) as answer:
            ids.append((await answer.json())["results"][0]["id"])
    assert ids[0] == ids[2] != ids[1]


async def test_module_is_not_claimed_by_a_second_spelling(node: Node) -> None:
    """Routes see the last spelling of a property; each of them counts."""
    for spelled in ({"connectionModuleId": "filter"}, {"connectionModuleId": "x", "ConnectionModuleId": "filter"}):
        message = {"source": "/messages/modules/other", "systemProperties": spelled}
        status, answer = await node.publish("of-agent", message)
        assert (status, answer["error"]["code"]) == (403, "forbidden_source")
