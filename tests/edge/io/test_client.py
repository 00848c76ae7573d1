"""The client for applications: publishes once whatever happens meanwhile, takes and acknowledges."""

from __future__ import annotations

import asyncio
import ssl
import traceback
import urllib.error
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.support.edges.upstream import FakeHub, open_upstream

from fairlead_edge.io import client as client_module
from fairlead_edge.io.client import Delivery, EdgeClient, Message
from fairlead_edge.io.local_api.publish_api import add_routes
from fairlead_edge.io.outbox.upstream import UpstreamService
from fairlead_wire.errors import LocalError, Permanent, Temporary

SOURCE = "/messages/modules/m/outputs/o"


class Agent:
    """The local API, which a test can make fail for a while."""

    def __init__(self, upstream: UpstreamService) -> None:
        self.upstream = upstream
        self.failures: list[Callable[[], web.Response]] = []
        self.asked: list[web.Request] = []
        self.app = web.Application(middlewares=[self._door])
        add_routes(self.app, upstream)
        self.url = ""

    @web.middleware
    async def _door(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.asked.append(request)
        response: web.StreamResponse = await handler(request)
        if self.failures:
            # The request was served and its answer was lost: the worst case for "once".
            return self.failures.pop()()
        return response

    def client(self, **options: Any) -> EdgeClient:
        return EdgeClient(self.url, **options)


@pytest.fixture
async def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Agent]:
    monkeypatch.setattr(client_module, "RETRY_SECONDS", 0.001)
    upstream = open_upstream(tmp_path / "outbox.db", FakeHub())
    agent = Agent(upstream)
    server = TestServer(agent.app)
    await server.start_server()
    agent.url = str(server.make_url("/"))
    yield agent
    await server.close()
    await upstream.outbox.close()


async def lengths(agent: Agent) -> dict[str, int]:
    return {queue.queue: queue.length for queue in (await agent.upstream.status()).queues}


async def test_published_messages_are_stored_and_answered(agent: Agent) -> None:
    messages = [
        Message(source=SOURCE, body={"t": 1}, properties={"priority": "3", "ttl": "60"}),
        Message(source="nonsense", body=1),
        Message(source=SOURCE, body=b"\x00\xff"),
    ]
    first, second, third = await asyncio.to_thread(agent.client().publish, messages)
    assert first.id and first.deliveries == [Delivery("iothub", 3, 60)]
    assert second.error is not None and second.error.code == "bad_source"
    assert third.id and third.error is None
    assert await lengths(agent) == {"iothub_Pri3": 1, "iothub": 1}


async def test_lost_answers_do_not_store_twice(agent: Agent) -> None:
    agent.failures = [lambda: web.Response(status=503)] * 3
    [result] = await asyncio.to_thread(agent.client().publish, [Message(source=SOURCE, body=1)])
    assert result.id
    assert await lengths(agent) == {"iothub": 1}
    assert len({request.headers["Idempotency-Key"] for request in agent.asked}) == 1


async def test_patience_ends(agent: Agent) -> None:
    agent.failures = [lambda: web.json_response({"error": {"code": "store_full", "message": "full"}}, status=507)] * 99
    with pytest.raises(Temporary, match="full"):
        await asyncio.to_thread(agent.client(patience_seconds=0.01).publish, [Message(source=SOURCE, body=1)])


def test_a_certificate_that_is_not_trusted_is_not_a_stopped_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do, without the library's own text; trying again does not help."""

    def refuse(*_: object, **__: object) -> None:
        error = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] failed (_ssl.c:1006)")
        error.verify_message = "unable to get local issuer certificate"
        raise urllib.error.URLError(error)

    client = EdgeClient("https://127.0.0.1:9", patience_seconds=0)
    monkeypatch.setattr(client._opener, "open", refuse)
    with pytest.raises(Permanent, match=r"not accepted: unable to get local issuer certificate; .*use http://") as seen:
        client.status()
    assert "_ssl" not in str(seen.value) and "is the agent running" not in str(seen.value)


async def test_agent_that_is_not_there_is_temporary() -> None:
    with pytest.raises(Temporary, match="no answer"):
        await asyncio.to_thread(
            EdgeClient("http://127.0.0.1:9", patience_seconds=0).publish, [Message(source=SOURCE, body=1)]
        )


async def test_what_would_fail_again_is_permanent(agent: Agent) -> None:
    with pytest.raises(Permanent) as refused:
        await asyncio.to_thread(agent.client().publish, [Message(source="nonsense", body=1)])
    assert refused.value.code == "bad_source"
    agent.failures = [lambda: web.Response(status=404, text="<html>")]
    with pytest.raises(Permanent) as refused:
        await asyncio.to_thread(agent.client().publish, [Message(source=SOURCE, body=1)])
    assert refused.value.code == "http_404"
    assert str(refused.value).endswith("/v1/messages is not an agent's API; it answered HTTP 404: <html>")


async def test_token_may_be_the_files_text_as_it_is(agent: Agent) -> None:
    """The file ends with a newline, and everybody reads it with read()."""
    await asyncio.to_thread(agent.client(token="t0ken\n").publish, [Message(source=SOURCE, body=1)])
    assert agent.asked[0].headers["Authorization"] == "Bearer t0ken"


@pytest.mark.parametrize("token", ["s3cret\nX-More: 1", "s3cret\x00", "s3cret\u20ac", "s3cret s3cret", "\n"])
def test_a_token_that_is_none_is_refused_without_being_shown(token: str) -> None:
    """The library's own refusal quotes the header, and a traceback ends up in tickets."""
    with pytest.raises(LocalError, match="data_dir/token") as refused:
        EdgeClient("http://127.0.0.1:9", token=token)
    assert "s3cret" not in "".join(traceback.format_exception(refused.value))


async def test_module_takes_acknowledges_and_abandons(agent: Agent) -> None:
    client = agent.client()
    to: dict[str, str | None] = {"endpoint": "edge-1/a b/in/1"}
    messages = [
        Message(source=SOURCE, body={"n": 1}, properties=to),
        Message(source=SOURCE, body=b"\xff", properties=to),
    ]
    await asyncio.to_thread(client.publish, messages)
    first, second = await asyncio.to_thread(client.take, "a b", "in/1")
    assert (first.body, second.body, first.attempt, first.source) == ({"n": 1}, b"\xff", 1, SOURCE)
    assert await asyncio.to_thread(client.ack, "a b", "in/1", [first.id, "x"]) == ["x"]
    assert await asyncio.to_thread(client.abandon, "a b", "in/1", [second.id]) == []
    [again] = await asyncio.to_thread(lambda: client.take("a b", "in/1", messages_max=5, wait_seconds=1))
    assert (again.id, again.attempt) == (second.id, 2)


def test_a_body_with_a_number_that_is_not_json_is_refused():
    """msgspec would write null."""
    message = Message(source=SOURCE, body={"v": float("nan")})
    with pytest.raises(LocalError, match=r"^NaN at messages\[0\].body.v, which is not JSON; send None or a number$"):
        EdgeClient("http://127.0.0.1:1").publish([message])
