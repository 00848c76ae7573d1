"""The local API's upstream part, over real HTTP: publish, brokered endpoints, dead letters, and bad input to each."""

from __future__ import annotations

import asyncio
import base64
import gzip
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from tests.support.edges.upstream import FakeHub, body, open_upstream, until

from fairlead_edge.errors import StoreFailed
from fairlead_edge.io.local_api import publish_api
from fairlead_edge.io.local_api.publish_api import add_routes
from fairlead_edge.io.outbox.upstream import UpstreamService
from fairlead_edge.outbox import publishing
from fairlead_wire import message
from fairlead_wire.errors import Temporary

Client = TestClient[web.Request, web.Application]


@pytest.fixture
def hub() -> FakeHub:
    return FakeHub()


@pytest.fixture
async def upstream(tmp_path: Path, hub: FakeHub) -> AsyncIterator[UpstreamService]:
    opened = open_upstream(tmp_path / "outbox.db", hub, max_bytes=100_000)
    running = asyncio.create_task(opened.run())
    yield opened
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await opened.outbox.close()


@pytest.fixture
async def client(upstream: UpstreamService) -> AsyncIterator[Client]:
    app = web.Application()
    add_routes(app, upstream)
    server = TestServer(app)
    await server.start_server(auto_decompress=False)
    async with TestClient(server) as opened:
        yield opened


async def post(client: Client, path: str, content: bytes, **headers: str) -> tuple[int, Any]:
    async with client.post(path, data=content, headers=headers) as response:
        return response.status, await response.json()


async def lengths(upstream: UpstreamService) -> dict[str, int]:
    return {queue.queue: queue.length for queue in (await upstream.status()).queues}


async def test_accepted_messages_name_where_they_went(client: Client, upstream: UpstreamService) -> None:
    status, answer = await post(
        client, "/v1/messages", body({"properties": {"priority": "0", "ttl": "60"}}, {"properties": {}})
    )
    assert status == 200
    assert answer["results"][0]["deliveries"] == [{"endpoint": "iothub", "priority": 0, "ttl": 60}]
    assert answer["results"][1]["deliveries"] == [{"endpoint": "iothub", "priority": 2_000_000_000, "ttl": None}]
    assert answer["results"][0]["id"] != answer["results"][1]["id"]
    assert await lengths(upstream) == {"iothub_Pri0": 1, "iothub": 1}


async def test_unrouted_message_is_accepted_and_counted(client: Client, upstream: UpstreamService) -> None:
    status, answer = await post(client, "/v1/messages", body({"properties": {"endpoint": "nowhere"}}))
    assert (status, answer["results"][0]["deliveries"]) == (200, [])
    assert upstream.publisher.counters["no_route"] == 1
    assert await lengths(upstream) == {}


async def test_before_any_routes_the_answer_is_not_yet(client: Client, upstream: UpstreamService) -> None:
    upstream.use_router(None)
    async with client.post("/v1/messages", data=body({})) as response:
        assert response.status == 503
        assert int(response.headers["Retry-After"]) > 0


async def test_full_store_is_507_and_changes_nothing(client: Client, upstream: UpstreamService) -> None:
    big = body(*({"body": "x" * 30_000} for _ in range(4)))
    async with client.post("/v1/messages", data=big) as response:
        assert response.status == 507
        assert int(response.headers["Retry-After"]) > 0
    assert (await post(client, "/v1/messages", body({"body": "x" * 30_000})))[0] == 200
    assert await lengths(upstream) == {"iothub": 1}


async def test_full_store_makes_room_of_what_expired(client: Client, upstream: UpstreamService) -> None:
    expired = {"body": "x" * 30_000, "properties": {"ttl": "0"}}
    assert (await post(client, "/v1/messages", body(expired, expired, expired)))[0] == 200
    assert (await post(client, "/v1/messages", body({"body": "y" * 30_000})))[0] == 200
    [queue] = (await upstream.status()).queues
    assert (queue.length, queue.expired) == (1, 3)


async def test_idempotency_key_answers_the_same_and_stores_once(client: Client, upstream: UpstreamService) -> None:
    first = await post(client, "/v1/messages", body({}, {}), **{"Idempotency-Key": "k1"})
    again = await post(client, "/v1/messages", body({}, {}), **{"Idempotency-Key": "k1"})
    assert first == again and first[0] == 200
    assert await lengths(upstream) == {"iothub": 2}
    status, answer = await post(client, "/v1/messages", body({}), **{"Idempotency-Key": "k1"})
    assert (status, answer["error"]["code"]) == (400, "key_reused")


async def test_concurrent_retries_under_one_key_store_once(client: Client, upstream: UpstreamService) -> None:
    answers = await asyncio.gather(
        *(post(client, "/v1/messages", body({}), **{"Idempotency-Key": "k2"}) for _ in range(5))
    )
    assert len({str(answer) for answer in answers}) == 1
    assert await lengths(upstream) == {"iothub": 1}


async def test_one_bad_message_does_not_spoil_the_others(client: Client) -> None:
    status, answer = await post(client, "/v1/messages", body({}, {"source": "nonsense"}, {}))
    assert status == 200
    assert ["id" in result for result in answer["results"]] == [True, False, True]
    assert answer["results"][1]["error"]["code"] == "bad_source"


@pytest.mark.parametrize(
    ("content", "status", "says"),
    [
        (b"", 400, "cannot be read"),
        (b"not json", 400, "cannot be read"),
        (b"\xff\xfe", 400, "UTF-8"),
        (b"[]", 400, "cannot be read"),
        (b'{"messages": []}', 400, "empty"),
        (b'{"messages": [], "more": 1}', 400, "more"),
        (b'{"messages": [{"source": "/messages"}]}', 400, "exactly one"),
        (b'{"messages": [{"source": "/messages", "body": 1, "bodyBase64": "AA=="}]}', 400, "exactly one"),
        (b'{"messages": [{"source": "/messages", "bodyBase64": "?"}]}', 400, "bodyBase64"),
        (b'{"messages": [{"source": "/message", "body": 1}]}', 400, "source"),
        (b'{"messages": [{"source": "", "body": 1}]}', 400, "source"),
        (b'{"messages": [{"body": 1}]}', 400, "source"),
        (b'{"messages": [{"source": "/messages", "body": 1, "properties": {"a": 1}}]}', 400, "properties"),
        (b'{"messages": [{"source": "/messages", "body": NaN}]}', 400, "cannot be read"),
        (b'{"messages": [{"source": "/messages", "body": 1, "nonsense": 1}]}', 400, "nonsense"),
        (b'{"messages": [{"source": "/messages", "body": ' + b"[" * 300 + b"]" * 300 + b"}]}", 400, "nested"),
        (b'{"messages": [{"source": "/messages", "body": ' + b"[" * 30000 + b"]" * 30000 + b"}]}", 400, "nested"),
        (body({"body": "x" * publishing.MESSAGE_BYTES_MAX}), 413, "limit"),
        (b" " * (publishing.REQUEST_BYTES_MAX + 1), 413, "over"),
    ],
)
async def test_bad_requests_are_refused_politely(client: Client, content: bytes, status: int, says: str) -> None:
    answered, answer = await post(client, "/v1/messages", content)
    assert answered == status
    assert says in answer["error"]["message"]


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (gzip.compress(body({}), mtime=0), 200),
        (gzip.compress(b" " * (publishing.REQUEST_BYTES_MAX + 1), mtime=0), 413),
        (b"this is no gzip", 400),
        (gzip.compress(body({}), mtime=0)[:-12], 400),
        (gzip.compress(body({}), mtime=0)[:-8], 400),
        (gzip.compress(body({}), mtime=0)[:-1], 400),
    ],
)
async def test_packed_requests_are_bounded_by_what_they_unpack_to(client: Client, content: bytes, status: int) -> None:
    """A few kilobytes that unpack to gigabytes are refused after eight megabytes; broken packing is the sender's."""
    async with client.post("/v1/messages", data=content, headers={"Content-Encoding": "gzip"}) as response:
        assert response.status == status
        if status == 400:
            said = (await response.json())["error"]["message"]
            assert said.startswith(("the request cannot be unpacked: ", "the request cannot be read: "))
            assert "\n" not in said and "400" not in said


async def test_bad_idempotency_key_is_refused(client: Client) -> None:
    status, answer = await post(client, "/v1/messages", body({}), **{"Idempotency-Key": "k" * 300})
    assert (status, answer["error"]["code"]) == (400, "bad_idempotency_key")


async def test_module_takes_and_acknowledges(client: Client, upstream: UpstreamService) -> None:
    path = "/v1/modules/filter/inputs/in1/messages"
    await post(
        client,
        "/v1/messages",
        body(
            {"properties": {"endpoint": "edge-1/filter/in1"}, "body": {"n": 1}},
            {
                "properties": {"endpoint": "edge-1/filter/in1", "priority": "1"},
                "bodyBase64": base64.b64encode(b"\x00\xff").decode(),
            },
        ),
    )
    async with client.get(path, params={"max": 10}) as response:
        messages = (await response.json())["messages"]
    assert [each["priority"] for each in messages] == [1, 2_000_000_000]
    assert messages[0]["bodyBase64"] == "AP8="
    assert messages[1]["body"] == {"n": 1}
    async with client.get(path) as response:
        assert (await response.json())["messages"] == []
    status, answer = await post(client, f"{path}/abandon", b'{"ids": ["%b"]}' % messages[0]["id"].encode())
    assert (status, answer) == (200, {"abandoned": 1, "unknown": []})
    async with client.get(path) as response:
        [again] = (await response.json())["messages"]
    assert (again["id"], again["attempt"]) == (messages[0]["id"], 2)
    ids = ",".join(f'"{each["id"]}"' for each in messages)
    status, answer = await post(client, f"{path}/ack", f'{{"ids": [{ids}, "stranger"]}}'.encode())
    assert (status, answer) == (200, {"acked": 2, "unknown": ["stranger"]})
    assert {queue.sent for queue in (await upstream.status()).queues} == {1}
    assert sum((await lengths(upstream)).values()) == 0


async def test_module_waits_for_a_message(client: Client) -> None:
    waiting = asyncio.create_task(_take(client))
    await asyncio.sleep(0)
    await post(client, "/v1/messages", body({"properties": {"endpoint": "edge-1/f/i"}}))
    assert len((await waiting)["messages"]) == 1


async def _take(client: Client) -> Any:
    async with client.get("/v1/modules/f/inputs/i/messages", params={"wait": 30}) as response:
        return await response.json()


TAKES = ("max=0", "max=1000", "max=x", "wait=-1", "wait=1e9", "wait=nan", "lease=0", "lease=nan", "more=1")
PAGES = ("limit=0", "limit=100000", "after=x", "after=-1", "after=99999999999999999999")


@pytest.mark.parametrize(
    "path",
    [*(f"/v1/modules/f/inputs/i/messages?{each}" for each in TAKES), *(f"/v1/deadletters?{each}" for each in PAGES)],
)
async def test_bad_queries_are_refused(client: Client, path: str) -> None:
    async with client.get(path) as response:
        assert response.status == 400 and (await response.json())["error"]["message"]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        *(
            (f"/v1/modules/f/inputs/i/messages/{verb}", content)
            for verb in ("ack", "abandon")
            for content in (b"", b"[]", b'{"ids": [1]}', b'{"ids": 1}', b"\xff")
        ),
        *(
            ("/v1/deadletters/replay", content)
            for content in (b"[]", b'{"numbers": ["a"]}', b'{"numbers": [99999999999999999999]}', b"nonsense")
        ),
    ],
)
async def test_bad_bodies_are_refused(client: Client, path: str, content: bytes) -> None:
    status, answer = await post(client, path, content)
    assert status == 400 and answer["error"]["message"]


async def test_messages_are_given_back_beside_their_list_too(client: Client) -> None:
    await post(client, "/v1/messages", body({"properties": {"endpoint": "edge-1/m/i"}}))
    for verb, done in (("abandon", "abandoned"), ("ack", "acked")):
        async with client.get("/v1/modules/m/inputs/i/messages?wait=30") as response:
            [message] = (await response.json())["messages"]
        status, answer = await post(
            client, f"/v1/modules/m/inputs/i/{verb}", b'{"ids": ["%b"]}' % message["id"].encode()
        )
        assert (status, answer) == (200, {done: 1, "unknown": []})


async def test_a_body_that_never_ends_is_not_waited_for(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish_api, "BODY_SECONDS_MAX", 0.05)
    ended = asyncio.Event()

    async def drops() -> AsyncIterator[bytes]:
        yield b'{"messages":['
        await ended.wait()

    async with client.post("/v1/messages", data=drops()) as response:
        ended.set()
        assert response.status == 400
        assert (await response.json())["error"]["code"] == "too_slow"


async def test_dead_letters_are_listed_and_replayed(client: Client, upstream: UpstreamService, hub: FakeHub) -> None:
    hub.answer = lambda stream, messages: message.Ack(
        parent_id=1,
        refused=[message.RefusedItem(index=0, code="topic_not_granted", reason="no such topic for this node")],
    )
    await post(client, "/v1/messages", body({"body": "bad"}, {"body": "good"}))
    hub.connect()
    await hub.until(lambda: len(hub.stored) == 1 and upstream.pump.counters["refused"] == 1)
    async with client.get("/v1/deadletters") as response:
        letters = (await response.json())["deadLetters"]
    assert [(each["code"], each["message"]["body"]) for each in letters] == [("topic_not_granted", "bad")]
    hub.answer = lambda stream, messages: message.Ack(parent_id=1)
    status, answer = await post(client, "/v1/deadletters/replay", b"")
    assert (status, answer) == (200, {"replayed": 1})
    await hub.until(lambda: len(hub.stored) == 2 and upstream.pump.counters["acked"] == 2)
    [queue] = (await upstream.status()).queues
    assert (queue.accepted, queue.sent, queue.dead_lettered, queue.length) == (2, 2, 0, 0)


@pytest.mark.parametrize(
    "failure", [Temporary("too many wait", retry_after_seconds=2.0), StoreFailed("the disk failed")]
)
async def test_a_store_that_cannot_just_now_is_said_on_every_path(
    client: Client, upstream: UpstreamService, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*args: Any, **more: Any) -> Any:
        raise failure

    monkeypatch.setattr(upstream.broker, "take", fails)
    monkeypatch.setattr(upstream.broker, "ack", fails)
    monkeypatch.setattr(upstream.outbox, "dead_letters", fails)
    monkeypatch.setattr(upstream.outbox, "replay", fails)
    async with client.get("/v1/modules/m/inputs/i/messages") as response:
        assert (response.status, str(failure) in await response.text()) == (503, True)
    async with client.get("/v1/deadletters") as response:
        assert response.status == 503
    for path, content in (("/v1/modules/m/inputs/i/ack", b'{"ids":["a"]}'), ("/v1/deadletters/replay", b"")):
        status, answer = await post(client, path, content)
        assert (status, answer["error"]["message"]) == (503, str(failure))


async def test_module_that_is_gone_before_its_answer_has_taken_nothing(
    client: Client, upstream: UpstreamService
) -> None:
    server = client.server
    assert server.host is not None
    _, writer = await asyncio.open_connection(server.host, server.port)
    writer.write(b"GET /v1/modules/filter/inputs/in1/messages?wait=30 HTTP/1.1\r\nHost: node\r\n\r\n")
    await until(lambda: upstream.broker.waiting)
    writer.close()
    await until(lambda: not server.handler.connections)
    await post(client, "/v1/messages", body({"properties": {"endpoint": "edge-1/filter/in1"}}))
    async with client.get("/v1/modules/filter/inputs/in1/messages", params={"wait": 30}) as response:
        [message] = (await response.json())["messages"]
    assert message["attempt"] == 1
