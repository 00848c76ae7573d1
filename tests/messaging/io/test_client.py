"""The client against the real service: what it answers and which error it raises."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.support.messaging import Topics

from fairlead_messaging.io.client import MessagingClient, Producer
from fairlead_wire.errors import Permanent, Temporary


@pytest_asyncio.fixture
async def client(topics: Topics) -> AsyncIterator[MessagingClient]:
    async with MessagingClient(topics.url) as client:
        yield client


async def test_topics(client: MessagingClient) -> None:
    """Created once; created again is no error but says so."""
    assert await client.create_topic("n", "t", {"ttl": 5})
    assert not await client.create_topic("n", "t")
    assert await client.topics("n") == ["t"]
    await client.update_topic("n", "t", {"owner": "x"})
    assert (await client.topic("n", "t"))["owner"] == "x"
    await client.delete_topic("n", "t")
    assert await client.topics("n") == []


async def test_publish_and_poll(client: MessagingClient) -> None:
    """Bytes in, bytes out; a repeated producer is told what was known."""
    await client.create_topic("n", "t")
    await client.publish("n", "t", [b"\x00\xff"])
    producer = Producer(id="edge/1", epoch=2**53 - 1, sequence=5)
    assert (await client.publish("n", "t", [b"a", b"b"], producer=producer)).stored == (5, 6)
    assert (await client.publish("n", "t", [b"a", b"b"], producer=producer)).known == (5, 6)
    one_each = Producer(id="edge/1", epoch=1, sequences=[9, 7])
    assert (await client.publish("n", "t", [b"c", b"d"], producer=one_each, ttl_seconds=5)).stored == (9, 7)
    page = await client.poll("n", "t", limit=2)
    assert [message.payload for message in page.messages] == [b"\x00\xff", b"a"]
    rest = await client.poll("n", "t", start_from=page.next_position, inclusive=False)
    assert [message.payload for message in rest.messages] == [b"b", b"c", b"d"]
    assert (await client.poll("n", "t", start_from=rest.next_position, inclusive=False, wait_ms=5)).messages == ()


async def test_inspect_readers_and_transactions(client: MessagingClient) -> None:
    """What people ask for at the command line."""
    await client.create_topic("n", "t")
    await client.publish("n", "t", [b"a"])
    assert [row["state"] for row in await client.inspect("n", "t")] == ["visible"]
    assert await client.readers("n", "t") == []
    assert await client.transactions() == []


async def test_refusals_are_permanent_and_carry_the_code(client: MessagingClient) -> None:
    """A missing topic can be told from bad input."""
    with pytest.raises(Permanent) as missing:
        await client.publish("n", "t", [b"a"])
    assert missing.value.code == "topic_not_found"
    with pytest.raises(Permanent) as bad:
        await client.create_topic("n", "t", {"ttl": 0})
    assert bad.value.code == "bad_ttl"


async def test_a_service_that_is_not_there_is_temporary() -> None:
    """With the address in the sentence."""
    async with MessagingClient("http://127.0.0.1:1") as client:
        with pytest.raises(Temporary, match=r"127\.0\.0\.1:1"):
            await client.topics("n")


async def test_overload_is_temporary_with_the_services_own_pause() -> None:
    """Retry-After decides; a body that is no JSON does not confuse."""

    async def busy(request: web.Request) -> web.Response:
        return web.Response(status=503, headers={"Retry-After": "7"}, text="gateway says no")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", busy)
    server = TestServer(app)
    await server.start_server()
    async with MessagingClient(str(server.make_url(""))) as client:
        with pytest.raises(Temporary) as error:
            await client.topics("n")
    assert error.value.retry_after_seconds == 7
    await server.close()
