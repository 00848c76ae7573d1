"""Topics over HTTP: what the contract and the seed promise, and what is refused."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator

import pytest_asyncio
from tests.support.topics.messaging import Topics, serving

from fairlead_messaging.server.store.memory_kv import MemoryKV


@pytest_asyncio.fixture
async def topics() -> AsyncIterator[Topics]:
    """Without any."""
    async with serving() as running:
        yield running


async def test_create_get_list_delete(topics: Topics) -> None:
    await topics.create("t", ttl="2147483647")
    assert await topics.ok("GET", "topics/t") == {"name": "t", "properties": {"ttl": "2147483647", "generation": "1"}}
    assert await topics.ok("GET", "topics") == ["t"]
    await topics.ok("DELETE", "topics/t")
    assert (await topics.ask("GET", "topics/t")).status == 404
    assert await topics.ok("GET", "topics") == []


async def test_a_body_is_what_its_encoding_says(topics: Topics) -> None:
    await topics.create("t")
    packed = {"Content-Encoding": "gzip", "Content-Type": "application/json", "Connection": "close"}
    whole = gzip.compress(b"{}" * 9000)
    for broken in (b"no gzip", whole[:-20], whole[:-8], whole[:-1]):
        asked = await topics.ask("POST", "topics/t/publish", broken, headers=packed)
        assert (asked.status, asked.code) == (400, "bad_body")
    bomb = gzip.compress(b'{"messages":["' + b"A" * (topics.broker.settings.body_bytes_max + 1) + b'"]}')
    assert len(bomb) < 100_000
    assert (await topics.ask("POST", "topics/t/publish", bomb, headers=packed)).status == 413


async def test_a_failed_create_leaves_the_topic_alone(topics: Topics) -> None:
    await topics.create("t", ttl=10)
    await topics.ok("PUT", "topics/t/properties", {"ttl": 30})
    answer = await topics.ask("PUT", "topics/t", {"ttl": 10})
    assert (answer.status, answer.code) == (409, "topic_exists")
    assert (await topics.properties("t"))["ttl"] == "30"


async def test_update_replaces_all_properties(topics: Topics) -> None:
    await topics.create("t", ttl=100, owner="x", level=3)
    assert await topics.properties("t") == {"ttl": "100", "owner": "x", "level": "3", "generation": "1"}
    await topics.ok("PUT", "topics/t/properties", {"ttl": 30})
    assert await topics.properties("t") == {"ttl": "30", "generation": "1"}
    await topics.ok("PUT", "topics/t/properties", {"owner": "y"})
    assert await topics.properties("t") == {"ttl": "604800", "owner": "y", "generation": "1"}


async def test_a_delivery_policy_is_shown_as_it_was_given(topics: Topics) -> None:
    given = {"minimum_delay": 1, "maximum_delay": 9, "ignore_subscription_override": True}
    await topics.create("t", ttl=5, delivery=given)
    assert (await topics.properties("t"))["delivery"] == given
    bad = {"ttl": 5, "delivery": {"minimum_delay": -1, "retry_backoff_function": "cubic"}}
    for method, path in (("PUT", "topics/t/properties"), ("PUT", "topics/other")):
        refused = await topics.ask(method, path, bad)
        assert (refused.status, refused.code) == (400, "bad_properties")
        for key in ("delivery.minimum_delay", "delivery.retry_backoff_function"):
            assert key in refused.body["error"]["message"]
    assert (await topics.properties("t"))["delivery"] == given
    await topics.ok("PUT", "topics/t/properties", {"ttl": 5})
    assert "delivery" not in await topics.properties("t")


async def test_update_of_a_missing_topic(topics: Topics) -> None:
    assert (await topics.ask("PUT", "topics/t/properties", {"ttl": 1})).status == 404
    assert (await topics.ask("DELETE", "topics/t")).status == 404
    await topics.create("t")
    assert (await topics.ask("PUT", "topics/t/properties", {"ttl": 0})).status == 400


async def test_generations_count_up_on_every_recreate(topics: Topics) -> None:
    for generation in range(1, 4):
        await topics.create("t", generation=7)
        assert await topics.properties("t") == {"ttl": "604800", "generation": str(generation)}
        await topics.ok("PUT", "topics/t/properties", {"ttl": 9, "generation": 99})
        assert (await topics.properties("t"))["generation"] == str(generation)
        await topics.ok("DELETE", "topics/t")
        assert (await topics.ask("GET", "topics/t")).status == 404


async def test_namespaces_and_prefixes_do_not_leak(topics: Topics) -> None:
    for namespace, name, payload in (("ns", "a", "x"), ("ns", "ab", "y"), ("n", "sa", "z")):
        topics.namespace = namespace
        await topics.create(name)
        await topics.publish(name, payload)
    assert await topics.ok("GET", "topics") == ["sa"]
    assert await topics.payloads("sa") == ["z"]
    topics.namespace = "ns"
    assert await topics.ok("GET", "topics") == ["a", "ab"]
    assert (await topics.payloads("a"), await topics.payloads("ab")) == (["x"], ["y"])
    await topics.ok("DELETE", "topics/a")
    assert await topics.ok("GET", "topics") == ["ab"]


async def test_system_topics_come_from_the_settings() -> None:
    kv = MemoryKV()
    for _ in range(2):
        async with serving(kv, system_topics=["audit", "metrics:2"]) as topics:
            topics.namespace = "system"
            assert await topics.ok("GET", "topics") == ["audit", "metrics0", "metrics1"]


async def test_unknown_paths_and_methods_answer_in_json(topics: Topics) -> None:
    answer = await topics.ask("GET", "/v1/nothing")
    assert (answer.status, answer.code) == (404, "no_such_path")
    answer = await topics.ask("PATCH", "topics/t")
    assert (answer.status, answer.code) == (405, "method_not_allowed")


async def test_health(topics: Topics) -> None:
    assert (await topics.ask("GET", "/healthz")).status == 200
    assert (await topics.ok("GET", "/readyz"))["status"] == "ready"
    await topics.create("t")
    await topics.publish("t", "a")
    text = (await topics.ask("GET", "/metrics")).body.decode()
    assert 'fairlead_messaging_published_messages_total{topic="default/t"} 1.0' in text


async def test_a_changed_subscription_keeps_its_place(topics: Topics) -> None:
    url = "http://127.0.0.1:1/hook"
    await topics.create("t")
    path = "topics/t/subscriptions/s"
    assert (await topics.ask("GET", path)).status == 404
    assert (await topics.ask("DELETE", path)).status == 404
    await topics.ok("PUT", path, {"url": url})
    position = (await topics.ok("GET", path))["position"]
    await topics.publish("t", "a")
    await topics.ok("PUT", path, {"url": url + "2", "delivery": {"minimum_delay": 1}})
    [listed] = await topics.ok("GET", "topics/t/subscriptions")
    assert (listed["name"], listed["url"], listed["position"]) == ("s", url + "2", position)
    assert listed["delivery"] == {"minimum_delay": 1}
    assert (listed["effectiveDelivery"]["minimum_delay"], listed["effectiveDelivery"]["maximum_delay"]) == (1, 30)
    await topics.ok("DELETE", path)
    assert await topics.ok("GET", "topics/t/subscriptions") == []
