"""Topics over HTTP: what the contract and the seed promise, and what is refused."""

from __future__ import annotations

import gzip

import pytest
from tests.support.topics.messaging import Topics, serving

from fairlead_messaging.server.store.memory_kv import MemoryKV


async def test_create_get_list_delete(topics: Topics) -> None:
    """A topic lives from its PUT to its DELETE, with its ttl as text among its properties."""
    await topics.create("t", ttl=10)
    assert await topics.ok("GET", "topics/t") == {"name": "t", "properties": {"ttl": "10", "generation": "1"}}
    assert await topics.ok("GET", "topics") == ["t"]
    await topics.ok("DELETE", "topics/t")
    assert (await topics.ask("GET", "topics/t")).status == 404
    assert await topics.ok("GET", "topics") == []


async def test_a_body_is_optional_and_ttl_has_a_default(topics: Topics) -> None:
    """Seven days unless the settings say otherwise."""
    await topics.create("t")
    assert (await topics.properties("t"))["ttl"] == "604800"


@pytest.mark.parametrize("ttl", [0, -1, "", "abc", 2147483648, 1.5, True, None, [], " 5", "+5"])
async def test_a_bad_ttl_is_refused(topics: Topics, ttl: object) -> None:
    """400 each time, and no topic is created."""
    assert (await topics.ask("PUT", "topics/t", {"ttl": ttl})).status == 400
    assert (await topics.ask("GET", "topics/t")).status == 404


async def test_the_largest_ttl(topics: Topics) -> None:
    """2147483647 seconds, as a number or as text."""
    await topics.create("t", ttl=2147483647)
    await topics.create("u", ttl="2147483647")


@pytest.mark.parametrize(
    "body", [b"[1]", b"{", b"\xff", b'"x"', b'{"a": null}', b'{"a": {}}', b'{"a": [1]}', b"[" * 5000]
)
async def test_bad_properties_are_refused(topics: Topics, body: bytes) -> None:
    """400 with the reason, never 500."""
    assert (await topics.ask("PUT", "topics/t", body)).status == 400


@pytest.mark.parametrize("query", ["offsets?ts=", "inspect?limit="])
@pytest.mark.parametrize("number", ["9" * 5000, "9" * 20, "-1", "1e3", "%D9%A3", "x", "NaN"])
async def test_numbers_that_are_none_are_refused(topics: Topics, query: str, number: str) -> None:
    """400 with the reason, however many digits."""
    await topics.create("t")
    assert (await topics.ask("GET", f"topics/t/{query}{number}")).status == 400


async def test_a_body_is_what_its_encoding_says(topics: Topics) -> None:
    """What cannot be unpacked is refused, what unpacks to more than a body may be is too large."""
    await topics.create("t")
    packed = {"Content-Encoding": "gzip", "Content-Type": "application/json", "Connection": "close"}
    whole = gzip.compress(b"{}" * 9000)
    for broken in (b"no gzip", whole[:-20], whole[:-8], whole[:-1]):
        asked = await topics.ask("POST", "topics/t/publish", broken, headers=packed)
        assert (asked.status, asked.code) == (400, "bad_body")
    bomb = gzip.compress(b'{"messages":["' + b"A" * (topics.broker.settings.body_bytes_max + 1) + b'"]}')
    assert len(bomb) < 100_000
    assert (await topics.ask("POST", "topics/t/publish", bomb, headers=packed)).status == 413


@pytest.mark.parametrize("name", ["a.b", "a:b", "a%20b", "%C3%A9", "a" * 201, "a%2Fb"])
async def test_bad_names_are_refused(topics: Topics, name: str) -> None:
    """Letters, digits, underscore and hyphen only; namespaces too."""
    answer = await topics.ask("PUT", f"topics/{name}")
    assert answer.status == 400, answer
    assert (await topics.ask("PUT", f"/v1/namespaces/{name}/topics/t")).status == 400
    assert (await topics.ask("GET", f"/v1/namespaces/{name}/topics")).status == 400


async def test_a_failed_create_leaves_the_topic_alone(topics: Topics) -> None:
    """409, and the properties stay what they were."""
    await topics.create("t", ttl=10)
    await topics.ok("PUT", "topics/t/properties", {"ttl": 30})
    answer = await topics.ask("PUT", "topics/t", {"ttl": 10})
    assert (answer.status, answer.code) == (409, "topic_exists")
    assert (await topics.properties("t"))["ttl"] == "30"


async def test_update_replaces_all_properties(topics: Topics) -> None:
    """What the update does not name is gone, known ones return to their defaults."""
    await topics.create("t", ttl=100, owner="x", level=3)
    assert await topics.properties("t") == {"ttl": "100", "owner": "x", "level": "3", "generation": "1"}
    await topics.ok("PUT", "topics/t/properties", {"ttl": 30})
    assert await topics.properties("t") == {"ttl": "30", "generation": "1"}
    await topics.ok("PUT", "topics/t/properties", {"owner": "y"})
    assert await topics.properties("t") == {"ttl": "604800", "owner": "y", "generation": "1"}


async def test_a_delivery_policy_is_shown_as_it_was_given(topics: Topics) -> None:
    """An update without it takes it away; a bad one changes nothing and says all that is wrong."""
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
    """404, also with a bad body; 400 for a bad body on a topic that is there."""
    assert (await topics.ask("PUT", "topics/t/properties", {"ttl": 1})).status == 404
    assert (await topics.ask("DELETE", "topics/t")).status == 404
    await topics.create("t")
    assert (await topics.ask("PUT", "topics/t/properties", {"ttl": 0})).status == 400


async def test_generations_count_up_on_every_recreate(topics: Topics) -> None:
    """The generation read in round i is i; after each delete the topic is not found."""
    for generation in range(1, 21):
        await topics.create("t", generation=7)
        assert (await topics.properties("t"))["generation"] == str(generation)
        await topics.ok("PUT", "topics/t/properties", {"ttl": 9, "generation": 99})
        assert (await topics.properties("t"))["generation"] == str(generation)
        await topics.ok("DELETE", "topics/t")
        assert (await topics.ask("GET", "topics/t")).status == 404


async def test_recreate_takes_the_new_properties(topics: Topics) -> None:
    """Nothing of the deleted topic shines through."""
    await topics.create("t", ttl=10, owner="x")
    await topics.ok("DELETE", "topics/t")
    await topics.create("t", ttl=20)
    assert await topics.properties("t") == {"ttl": "20", "generation": "2"}


async def test_namespaces_and_prefixes_do_not_leak(topics: Topics) -> None:
    """ns:a, ns:ab and n:sa are three topics of two namespaces."""
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
    """``prefix:N`` expands; a second start finds them in place."""
    kv = MemoryKV()
    for _ in range(2):
        async with serving(kv, system_topics=["audit", "metrics:2"]) as topics:
            topics.namespace = "system"
            assert await topics.ok("GET", "topics") == ["audit", "metrics0", "metrics1"]


async def test_unknown_paths_and_methods_answer_in_json(topics: Topics) -> None:
    """404 and 405 look like every other error."""
    answer = await topics.ask("GET", "/v1/nothing")
    assert (answer.status, answer.code) == (404, "no_such_path")
    answer = await topics.ask("PATCH", "topics/t")
    assert (answer.status, answer.code) == (405, "method_not_allowed")


async def test_health(topics: Topics) -> None:
    """Alive, ready, and counted."""
    assert (await topics.ask("GET", "/healthz")).status == 200
    assert (await topics.ok("GET", "/readyz"))["status"] == "ready"
    await topics.create("t")
    await topics.publish("t", "a")
    text = (await topics.ask("GET", "/metrics")).body.decode()
    assert 'fairlead_messaging_published_messages_total{topic="default/t"} 1.0' in text
