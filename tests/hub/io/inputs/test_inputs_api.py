"""The calls as a program makes them: what is answered, and what is refused before anything happens."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.hub.io.inputs.test_access_review import Cluster
from tests.support.hubs.input_line import InputLine

from fairlead_hub.inputs import submission
from fairlead_hub.io import http
from fairlead_hub.io.inputs import inputs_api
from fairlead_hub.io.inputs.access_review import AccessReview
from fairlead_hub.io.inputs.inputs_api import InputsApi
from fairlead_wire import message

PATH = "/v1/nodes/edge-1/inputs/camera/commands/messages"
ID = "a" * 32


class Served:
    def __init__(self, line: InputLine, api: InputsApi, url: str, session: aiohttp.ClientSession) -> None:
        self.line, self.api, self._url, self._session = line, api, url, session

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._session.request(method, self._url + path, data=data, headers=named) as answer:
            content = await answer.read()
            found = json.loads(content) if answer.content_type == "application/json" else content
            if answer.status in (429, 503):
                assert int(answer.headers["Retry-After"]) >= 1
            return answer.status, found

    async def code(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
        status, found = await self.ask(method, path, body, **headers)
        return status, found["error"]["code"]


@pytest.fixture(params=[True])
async def served(request: pytest.FixtureRequest) -> AsyncIterator[Served]:
    line = InputLine()
    loop = asyncio.get_running_loop()
    api = InputsApi(line.core.hub, AccessReview(Cluster(), is_open=request.param, clock=loop.time))
    app = web.Application(middlewares=[http._no_pages])
    api.add_to(app)
    api.serves(line.inputs)
    runner, port = await http.listen(app, "127.0.0.1", 0)
    async with aiohttp.ClientSession() as session:
        yield Served(line, api, f"http://127.0.0.1:{port}", session)
    await runner.cleanup()
    line.close()


async def test_a_message_is_accepted_and_asked_for(served: Served) -> None:
    """One, several, and what became of them."""
    status, found = await served.ask("POST", f"{PATH}?ttl=60", {"body": 1}, Idempotency_Key="k")
    assert (status, found["state"]) == (202, "accepted") and found["results"] == [
        {"id": found["id"], "state": "accepted"}
    ]
    assert (await served.ask("POST", f"{PATH}?ttl=60", {"body": 1}, Idempotency_Key="k"))[1]["id"] == found["id"]
    status, state = await served.ask("GET", f"{PATH}/{found['id']}")
    assert status == 200 and state["state"] == "accepted" and state["expiresInSeconds"] == 60.0
    status, several = await served.ask("POST", PATH, {"messages": [{"body": 1}, {"bodyBase64": "AA=="}]})
    assert status == 202 and len(several["results"]) == 2


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        (PATH, b"", (400, "bad_request")),
        (PATH, {}, (400, "bad_message")),
        (f"{PATH}?ttl=0", {"body": 1}, (400, "bad_ttl")),
        (f"{PATH}?ttl=nan", {"body": 1}, (400, "bad_ttl")),
        (f"{PATH}?ttl=604801", {"body": 1}, (400, "bad_ttl")),
        (f"{PATH}?ttl=soon", {"body": 1}, (400, "bad_ttl")),
        (PATH.replace("edge-1", "edge-2"), {"body": 1}, (404, "no_node")),
        (PATH.replace("camera", "a%2Fb"), {"body": 1}, (400, "bad_input")),
        (PATH, {"body": "x" * submission.REQUEST_BYTES_MAX}, (413, "too_large")),
        (PATH, {"body": "x" * (300 * 1024)}, (413, "too_large")),
    ],
)
async def test_what_cannot_be_is_refused(served: Served, path: str, body: Any, expected: tuple[int, str]) -> None:
    """With a code, and nothing of it is kept."""
    assert await served.code("POST", path, body) == expected
    assert served.line.messaging.logs == {}


async def test_states_that_are_not_known_and_bad_questions(served: Served) -> None:
    """A node that is away alone knows."""
    assert await served.code("GET", f"{PATH}/{ID}") == (503, "node_away")
    for query in ("wait=61", "wait=-1", "wait=inf", "wait=x", "until=table"):
        assert await served.code("GET", f"{PATH}/{ID}?{query}") == (400, "bad_request")
    served.line.connect()
    asked = asyncio.ensure_future(served.code("GET", f"{PATH}/{ID}"))
    assert await served.line.answered(asked) == (404, "no_message")


@pytest.mark.parametrize("id", ["x", "A" * 32, "a" * 33, "a" * 2000, "%0a" + "a" * 31, "a" * 32 + "%0a"])
async def test_an_id_that_no_message_has_is_not_asked_of_the_node(served: Served, id: str) -> None:
    """It would end the session: the node reads no such frame."""
    served.line.connect()
    async with asyncio.timeout(5.0):
        assert await served.code("GET", f"{PATH}/{id}") == (404, "no_message")
    assert served.line.edge is not None
    assert not [each for each in served.line.edge.sent() if isinstance(each, message.AskInputs)]


async def test_pages_of_a_browser_are_refused(served: Served) -> None:
    """Also those of our own origin: the console does not send."""
    for headers in ({"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "same-origin"}, {"Host": "evil.example"}):
        assert await served.code("POST", PATH, {"body": 1}, **headers) == (403, "forbidden")
    assert served.line.messaging.logs == {}


async def test_before_and_after_it_serves_nodes_it_takes_nothing(served: Served) -> None:
    """Another hub may be the one."""
    served.api.serves(None)
    assert await served.code("POST", PATH, {"body": 1}) == (503, "starting")


async def test_an_old_agent_and_a_full_queue_are_said(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the status that says whether to come again."""
    served.line.connect(inputs=False)
    assert await served.code("POST", PATH, {"body": 1}) == (409, "agent_too_old")
    served.line.connect()
    monkeypatch.setattr("fairlead_hub.inputs.node_queue.MESSAGES_MAX", 0)
    assert await served.code("POST", PATH, {"body": 1}) == (429, "too_many_waiting")


async def test_messaging_that_is_away_is_said(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after it knows what waits."""
    await served.ask("POST", PATH, {"body": 1})
    served.line.messaging.fails = lambda call: "before" if call == "publish" else ""
    assert await served.code("POST", PATH, {"body": 1}) == (503, "messaging_unavailable")
    served.line.messaging.fails = lambda call: "before"
    monkeypatch.setattr("fairlead_hub.io.inputs.inputs.LOAD_SECONDS", 0.02)
    served.line.new_hub()
    served.api.serves(served.line.inputs)
    served.api._hub = served.line.core.hub
    assert await served.code("POST", PATH, {"body": 1}) == (503, "messaging_unavailable")


@pytest.mark.parametrize("served", [False], indirect=True)
async def test_with_security_a_grant_is_needed_before_any_other_response(served: Served) -> None:
    """Not even whether the node exists, or what is wrong with the request."""
    nowhere = PATH.replace("edge-1", "edge-9")
    assert await served.code("POST", nowhere, {}) == (401, "no_identity")
    assert await served.code("POST", nowhere, {}, Authorization="Bearer good") == (403, "forbidden")
    assert (await served.ask("POST", PATH, {"body": 1}, Authorization="bearer good"))[0] == 202
    assert await served.code("GET", f"{PATH}/{ID}", Authorization="Bearer good") == (403, "forbidden")


async def test_a_body_that_comes_slowly_is_not_waited_for(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection is free again."""
    monkeypatch.setattr(inputs_api, "BODY_SECONDS_MAX", 0.05)
    port = int(served._url.rsplit(":", 1)[1])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{{".encode())
    answer = await reader.readuntil(b"too_slow")
    assert answer.startswith(b"HTTP/1.1 400")
    writer.close()


async def test_a_request_that_comes_packed_is_whole_or_refused(served: Served) -> None:
    """Also where it lost nothing but its checksum; and what it unpacks to is bounded."""
    whole = gzip.compress(b'{"body": 1}')
    assert (await served.ask("POST", PATH, whole, Content_Encoding="gzip"))[0] == 202
    for broken in (whole[:-1], whole[:-8], b"no gzip"):
        assert await served.code("POST", PATH, broken, Content_Encoding="gzip") == (400, "bad_request")
    assert await served.code("POST", PATH, whole, Content_Encoding="br") == (400, "bad_request")
    bomb = gzip.compress(b'{"body": "' + b"x" * submission.REQUEST_BYTES_MAX + b'"}')
    assert await served.code("POST", PATH, bomb, Content_Encoding="gzip") == (413, "too_large")
