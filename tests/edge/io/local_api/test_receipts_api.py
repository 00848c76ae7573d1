"""``GET /v1/receipts/{id}`` over real HTTP: who may ask, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from tests.support.edges.upstream import FakeHub, open_upstream, until
from tests.support.topics.topic_model import TopicModel

from fairlead_edge import module_tokens
from fairlead_edge.errors import StoreFailed
from fairlead_edge.io.local_api import publish_api
from fairlead_edge.io.local_api.access import AccessGuard
from fairlead_edge.io.local_api.bodies import Receipt
from fairlead_edge.io.local_api.publish_api import add_routes
from fairlead_edge.io.outbox import receipts
from fairlead_edge.io.outbox.upstream import UpstreamService
from fairlead_edge.module_tokens import line

TOKENS = module_tokens.parse("\n".join([line("filter", "of-filter"), line("pump", "of-pump")]))
AGENT, FILTER, PUMP = "agents-own", "of-filter", "of-pump"
Client = TestClient[web.Request, web.Application]


@pytest.fixture
def hub() -> FakeHub:
    found = FakeHub()
    found.answer = TopicModel().answer
    return found


@pytest.fixture
async def upstream(tmp_path: Path, hub: FakeHub) -> AsyncIterator[UpstreamService]:
    opened = open_upstream(tmp_path / "outbox.db", hub, modules_have_tokens=True)
    running = asyncio.create_task(opened.run())
    yield opened
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await opened.outbox.close()


@pytest.fixture
async def client(upstream: UpstreamService) -> AsyncIterator[Client]:
    guard = AccessGuard(AGENT, required=False, modules=lambda: TOKENS)
    app = web.Application()
    add_routes(app, upstream, guard)
    async with TestClient(TestServer(app)) as opened:
        yield opened


async def ask(client: Client, path: str, token: str = AGENT) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with client.get(f"/v1/receipts/{path}", headers=headers) as response:
        return response.status, await response.json()


async def publish(client: Client, token: str = "") -> str:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    said = {"body": 1} if token else {"source": "/messages/modules/m", "body": 1}
    async with client.post("/v1/messages", json={"messages": [said]}, headers=headers) as response:
        answer = await response.json()
    return str(answer["results"][0]["id"])


async def test_a_receipt_is_what_the_description_says(client: Client, hub: FakeHub) -> None:
    id = await publish(client)
    status, found = await ask(client, id)
    assert (status, msgspec.convert(found, Receipt, strict=True).state) == (200, "accepted")
    hub.connect()
    status, found = await ask(client, f"{id}?wait=60&until=in_topic")
    said = msgspec.convert(found, Receipt, strict=True)
    assert status == 200 and said.in_topic is not None and said.in_topic.topic == "default/telemetry"
    assert found.keys() >= {"accepted", "in_topic", "in_table"}


@pytest.mark.parametrize("away", [True, False])
async def test_a_module_asks_for_its_own_messages_only(client: Client, hub: FakeHub, away: bool) -> None:
    mine, anyones = await publish(client, PUMP), await publish(client)
    if not away:
        hub.connect()
        await until(lambda: len(hub.stored) == 2)
        assert (await ask(client, f"{mine}?wait=60&until=in_topic", PUMP))[1]["state"] == "in_topic"
    assert [(await ask(client, mine, token))[0] for token in (PUMP, FILTER, "", AGENT)] == [200, 404, 404, 200]
    assert [(await ask(client, anyones, token))[0] for token in (PUMP, "", AGENT)] == [404, 200, 200]
    _, other = await ask(client, mine, FILTER)
    _, never = await ask(client, "0" * 31 + "1", FILTER)
    assert other["error"]["code"] == never["error"]["code"] == "unknown_message"


@pytest.mark.parametrize(
    "path",
    ["x", "a" * 4000, "%00" * 16, "9f86d081884c7d659a2feaa0c55ad01", "A" * 32, "é" * 32]
    + [f"{'a' * 32}?{query}" for query in ("wait=-1", "wait=61", "wait=nan", "wait=x", "until=x", "since=1")],
)
async def test_what_is_no_question_is_refused(client: Client, path: str) -> None:
    status, found = await ask(client, path)
    assert (status, found["error"]["code"]) == (400, "bad_request")


async def test_what_is_not_known_says_since_when_it_would_be(client: Client, hub: FakeHub) -> None:
    for never in ("a" * 32, "0" * 32):
        status, found = await ask(client, never)
        assert (status, found["error"]["code"]) == (404, "unknown_message")
    hub.connect()
    await ask(client, f"{await publish(client)}?wait=60&until=in_topic")
    _, found = await ask(client, "a" * 32)
    assert "are remembered since 20" in found["error"]["message"]


async def test_one_module_that_waits_for_all_it_has_leaves_places_for_others(
    client: Client, upstream: UpstreamService, hub: FakeHub
) -> None:
    greedy, modest = await publish(client, FILTER), await publish(client, PUMP)
    waiting = [asyncio.create_task(ask(client, f"{greedy}?wait=60&until=in_topic", FILTER)) for _ in range(100)]
    await until(lambda: sum(each.done() for each in waiting) == 100 - receipts.WAITING_MAX // 2)
    refused = [each.result() for each in waiting if each.done()]
    assert {(status, found["error"]["code"]) for status, found in refused} == {(429, "too_many_receipts")}
    assert "this module holds 32 of 64 places" in refused[0][1]["error"]["message"]
    headers = {"Authorization": f"Bearer {FILTER}"}
    async with client.get(f"/v1/receipts/{greedy}", headers=headers) as response:
        assert (response.status, response.headers["Retry-After"]) == (429, "1")
    assert (await ask(client, modest, PUMP))[0] == (await ask(client, modest))[0] == 200
    also = asyncio.create_task(ask(client, f"{modest}?wait=60&until=in_topic", PUMP))
    await until(lambda: len(upstream.receipts._places) == receipts.WAITING_MAX // 2 + 1)
    hub.connect()
    answers = [await also, *(await asyncio.gather(*waiting))]
    assert [status for status, _ in answers].count(200) == receipts.WAITING_MAX // 2 + 1
    assert (await ask(client, greedy, FILTER))[0] == 200, "its places are free again"


@pytest.mark.slow
async def test_one_module_that_waits_for_messages_leaves_places_for_others(
    client: Client, upstream: UpstreamService, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[tuple[str, float]] = []

    async def take(endpoint: str, *, wait_seconds: float, **_: Any) -> list[Any]:
        waited.append((endpoint.split("/")[1], wait_seconds))
        if wait_seconds:
            await over.wait()
        return []

    async def asked(module: str) -> int:
        path, token = f"/v1/modules/{module}/inputs/in/messages", f"of-{module}"
        async with client.get(f"{path}?wait=30", headers={"Authorization": f"Bearer {token}"}) as response:
            return response.status

    over = asyncio.Event()
    monkeypatch.setattr(upstream.broker, "take", take)
    waiting = [asyncio.create_task(asked("filter")) for _ in range(publish_api.WAITING_MAX)]
    await until(lambda: len(waited) == publish_api.WAITING_MAX)
    waiting.append(asyncio.create_task(asked("pump")))
    await until(lambda: len(waited) == publish_api.WAITING_MAX + 1)
    assert waited.count(("filter", 30.0)) == waited.count(("filter", 0.0)) == publish_api.WAITING_MAX // 2
    assert waited[-1] == ("pump", 30.0)
    over.set()
    assert set(await asyncio.gather(*waiting)) == {200}


async def test_a_failed_disk_is_said(
    client: Client, upstream: UpstreamService, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise StoreFailed("the disk failed")

    monkeypatch.setattr(upstream.outbox, "whereabouts", broken)
    status, found = await ask(client, "a" * 32)
    assert (status, found["error"]["code"]) == (503, "store_failed")
