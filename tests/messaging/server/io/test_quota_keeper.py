"""Quotas over HTTP: 429 with Retry-After, and clients that wait and lose nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.support.topics.messaging import Topics, b64, serving

from fairlead_messaging.client.errors import Busy
from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_messaging.client.io.buffered_publisher import AsyncBufferedPublisher
from fairlead_messaging.client.io.sync_client import Client
from fairlead_messaging.client.retry import PATIENT
from fairlead_messaging.server.io import quota_keeper
from fairlead_messaging.server.io.rest.http import QUOTAS
from fairlead_messaging.server.quotas import MESSAGE_BYTES


@pytest.fixture
async def topics_with_rate() -> AsyncIterator[Topics]:
    async with serving(quotas=[{"namespace": "default", "bytes_per_second": 1000}]) as topics:
        await topics.create("t")
        yield topics


def publishing(size: int) -> dict[str, list[str]]:
    return {"messages": [b64("x" * size)]}


async def test_more_bytes_than_a_second_may_have_are_answered_with_a_wait() -> None:
    async with serving(quotas=[{"namespace": "default", "bytes_per_second": 1}]) as topics:
        await topics.create("t")
        assert (await topics.ask("POST", "topics/t/publish", publishing(5000))).status == 200
        refused = await topics.ask("POST", "topics/t/publish", publishing(1))
        assert (refused.status, refused.code) == (429, "quota_bytes_per_second")
        assert 1 <= int(refused.headers["Retry-After"]) <= 5000 + MESSAGE_BYTES
        topics.namespace = "other"
        await topics.create("t")
        for _ in range(3):
            assert (await topics.ask("POST", "topics/t/publish", publishing(5000))).status == 200


async def test_a_namespace_has_no_more_topics_than_its_quota() -> None:
    """Also where many are made at once; one that is deleted makes room, and one that exists is 409 as ever."""
    async with serving(quotas=[{"namespace": "*", "topics": 3}], system_topics=["shard:8"]) as topics:
        answers = await asyncio.gather(*(topics.ask("PUT", f"topics/t{each}") for each in range(10)))
        assert sorted(each.status for each in answers) == [200] * 3 + [429] * 7
        refused = next(each for each in answers if each.status == 429)
        assert (refused.code, refused.headers["Retry-After"]) == ("quota_topics", "60")
        [first, *_] = await topics.ok("GET", "topics")
        assert (await topics.ask("PUT", f"topics/{first}")).status == 409
        await topics.ok("DELETE", f"topics/{first}")
        assert (await topics.ask("PUT", "topics/again")).status == 200
        assert (await topics.ask("PUT", "topics/more")).status == 429


async def test_a_namespace_holds_no_more_than_its_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_keeper, "MEASURE_SECONDS", 3600.0)  # the test says when
    most = 10 * (100 + MESSAGE_BYTES)
    async with serving(quotas=[{"namespace": "default", "stored_bytes": most}]) as topics:
        await topics.create("t", ttl=10)
        many = await asyncio.gather(*(topics.ask("POST", "topics/t/publish", publishing(100)) for _ in range(30)))
        assert sorted(each.status for each in many) == [200] * 10 + [429] * 20
        refused = next(each for each in many if each.status == 429)
        assert (refused.code, refused.headers["Retry-After"]) == ("quota_stored_bytes", "30")
        pointer, _ = await topics.start()
        stored = {"transactionWritePointer": pointer, **publishing(1)}
        assert (await topics.ask("POST", "topics/t/store", stored)).status == 429
        topics.clock.forward(20_000)
        await topics.app[QUOTAS]._measure()
        assert (await topics.ask("POST", "topics/t/publish", publishing(100))).status == 200


async def test_what_failed_takes_no_room() -> None:
    async with serving(quotas=[{"namespace": "default", "stored_bytes": 1000}]) as topics:
        await topics.create("t", transactional="required")
        for _ in range(5):
            assert (await topics.ask("POST", "topics/t/publish", publishing(900))).status == 400


@pytest.mark.slow
async def test_clients_wait_and_store_everything_once(topics_with_rate: Topics) -> None:
    url = topics_with_rate.url
    async with AsyncClient(url, retries=PATIENT) as client:
        for each in range(2):
            await client.publish("default", "t", [b"a%d" % each + b"x" * 900])

        async with AsyncBufferedPublisher(client, "default", "t", producer_id="p", epoch=1) as publisher:
            for each in range(3):
                assert publisher.publish(b"b%d" % each)
            assert await publisher.flush(30.0)
    with Client(url, retries=PATIENT) as client:
        await asyncio.to_thread(client.publish, "default", "t", [b"c0"])
    found = [each[:2] for each in await topics_with_rate.payloads("t")]
    assert found == ["a0", "a1", "b0", "b1", "b2", "c0"]


async def test_a_client_that_does_not_wait_is_told_to() -> None:
    """Nothing was begun, so it is not in doubt."""
    quotas = [{"namespace": "default", "bytes_per_second": 1}]
    async with serving(quotas=quotas) as topics, AsyncClient(topics.url) as client:
        await topics.create("t")
        await client.publish("default", "t", [b"x" * 3000])
        with pytest.raises(Busy) as caught:
            await client.publish("default", "t", [b"x"])
        assert not caught.value.in_doubt and (caught.value.retry_after_seconds or 0) >= 1
