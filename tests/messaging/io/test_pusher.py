"""Pushing to a real HTTP endpoint: order, retries, dead letters, restarts."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from tests.support.endpoint import listening
from tests.support.messaging import Topics, serving, until

from fairlead_messaging.io import pusher
from fairlead_messaging.kv import MemoryKV

AT_ONCE = {"retries_with_no_delay": 2, "minimum_delay_retries": 0, "maximum_delay_retries": 0, "backoff_retries": 0}


async def subscribe(topics: Topics, url: str, **more: Any) -> None:
    await topics.ok("PUT", "topics/t/subscriptions/s", {"url": url, "delivery": AT_ONCE, **more})


async def shown(topics: Topics) -> dict[str, Any]:
    return dict(await topics.ok("GET", "topics/t/subscriptions/s"))


async def test_messages_come_in_order_with_their_names(topics: Topics) -> None:
    """From the subscription on; committed ones only."""
    async with listening() as endpoint:
        await topics.create("t")
        await topics.publish("t", "before")
        await subscribe(topics, endpoint.url)
        pointer, _ = await topics.start()
        await topics.publish("t", "hidden", tx=pointer)
        await topics.publish("t", "a", "b")
        await topics.finish(pointer, "abort")
        await until(lambda: len(endpoint.bodies) == 2)
        assert endpoint.bodies == ["a", "b"]
        assert endpoint.headers[0]["Fairlead-Topic"] == "default/t"
        assert endpoint.headers[0]["Fairlead-Subscription"] == "s"
        assert endpoint.headers[0]["Fairlead-Message-Id"] < endpoint.headers[1]["Fairlead-Message-Id"]


async def test_what_may_work_later_is_sent_again(topics: Topics) -> None:
    """5xx and 429 are repeated; the message behind waits its turn."""
    async with listening() as endpoint:
        await topics.create("t")
        await subscribe(topics, endpoint.url)
        endpoint.answers = [500, 429, 200]
        await topics.publish("t", "a", "b")
        await until(lambda: len(endpoint.bodies) == 4)
        assert endpoint.bodies == ["a", "a", "a", "b"]


async def test_what_never_works_becomes_a_dead_letter(topics: Topics) -> None:
    """A final answer at once, retries used up in the end; then the next message."""
    async with listening() as endpoint:
        await topics.create("t")
        await topics.create("dead")
        await subscribe(topics, endpoint.url, dead_letter_topic="default/dead")
        endpoint.answers = [400, 500, 500, 500]
        await topics.publish("t", "final", "tried", "fine")
        await until(lambda: len(endpoint.bodies) == 5)
        assert endpoint.bodies == ["final", "tried", "tried", "tried", "fine"]
        assert await topics.payloads("dead") == ["final", "tried"]


async def test_without_a_dead_letter_topic_it_is_counted(topics: Topics) -> None:
    """Nothing is dropped silently."""
    async with listening() as endpoint:
        await topics.create("t")
        await subscribe(topics, endpoint.url)
        endpoint.answers = [404]
        await topics.publish("t", "a", "b")
        await until(lambda: len(endpoint.bodies) == 2)
        while (state := await shown(topics))["delivered"] < 1:
            continue
        assert (state["dropped"], state["delivered"], state["last_error"]) == (1, 1, "status 404")


async def test_an_absurd_pause_stops_nobody(topics: Topics) -> None:
    """400 digits are no number of seconds; the policy decides then."""
    async with listening() as endpoint:
        await topics.create("t")
        await subscribe(topics, endpoint.url)
        endpoint.answers = [web.Response(status=503, headers={"Retry-After": "9" * 400}), 200]
        await topics.publish("t", "a")
        await until(lambda: len(endpoint.bodies) == 2)


async def test_a_name_that_means_the_metadata_service_is_not_pushed_to() -> None:
    """Whatever it meant when the subscription was made; 2852039166 is 169.254.169.254 to a resolver."""
    resolver = pusher._Resolver()
    with pytest.raises(OSError, match="link-local"):
        await resolver.resolve("2852039166", 80)
    assert [each["host"] for each in await resolver.resolve("127.0.0.1", 80)] == ["127.0.0.1"]


async def test_the_endpoints_own_pause_is_honoured(topics: Topics) -> None:
    """Retry-After, kept with the attempt on disk."""
    async with listening() as endpoint:
        await topics.create("t")
        await subscribe(topics, endpoint.url)
        endpoint.answers = [web.Response(status=503, headers={"Retry-After": "60"})]
        await topics.publish("t", "a")
        while not (state := await shown(topics))["attempts"]:
            continue
        assert state["next_attempt_ms"] == topics.clock.now_ms + 60_000
        assert state["last_error"] == "status 503"


async def test_a_restart_goes_on_where_it_stood() -> None:
    """Positions are on disk; what was delivered does not come again."""
    kv = MemoryKV()
    async with listening() as endpoint:
        async with serving(kv) as topics:
            await topics.create("t")
            await subscribe(topics, endpoint.url)
            await topics.publish("t", "a")
            while not (await shown(topics))["delivered"]:
                continue
        async with serving(kv) as topics:
            await topics.publish("t", "b")
            await until(lambda: len(endpoint.bodies) == 2)
        assert endpoint.bodies == ["a", "b"]


async def test_a_deleted_subscription_ends(topics: Topics) -> None:
    """And so does one whose topic was deleted."""
    async with listening() as endpoint:
        await topics.create("t")
        await subscribe(topics, endpoint.url)
        await topics.ok("DELETE", "topics/t/subscriptions/s")
        await topics.publish("t", "a")
        await subscribe(topics, endpoint.url)
        await topics.publish("t", "b")
        await until(lambda: len(endpoint.bodies) == 1)
        assert endpoint.bodies == ["b"]
