"""Subscriptions as resources."""

from __future__ import annotations

import pytest
from tests.support.topics.messaging import Topics

URL = "http://127.0.0.1:1/hook"


async def test_create_change_list_delete(topics: Topics) -> None:
    """A change keeps its place."""
    await topics.create("t")
    path = "topics/t/subscriptions/s"
    assert (await topics.ask("GET", path)).status == 404
    assert (await topics.ask("DELETE", path)).status == 404
    await topics.ok("PUT", path, {"url": URL})
    position = (await topics.ok("GET", path))["position"]
    await topics.publish("t", "a")
    await topics.ok("PUT", path, {"url": URL + "2", "delivery": {"minimum_delay": 1}})
    [listed] = await topics.ok("GET", "topics/t/subscriptions")
    assert (listed["name"], listed["url"], listed["position"]) == ("s", URL + "2", position)
    assert listed["delivery"] == {"minimum_delay": 1}
    assert (listed["effectiveDelivery"]["minimum_delay"], listed["effectiveDelivery"]["maximum_delay"]) == (1, 30)
    await topics.ok("DELETE", path)
    assert await topics.ok("GET", "topics/t/subscriptions") == []


@pytest.mark.parametrize(
    "body",
    [
        {"url": "http://h:99999/"}, {"url": "http://h:0/"}, {"url": "http://a b/"},
        {}, {"url": "ftp://x"}, {"url": "http://"}, {"url": 1}, {"url": URL, "more": 1}, [],
        {"url": URL, "delivery": {"minimum_delay": -1}}, {"url": URL, "delivery": {"unknown": 1}},
        {"url": URL, "dead_letter_topic": "noslash"}, {"url": URL, "dead_letter_topic": "a/b c"}, {"url": "http://[x"},
        {"url": "http://" + "x" * 3000},
    ],
)  # fmt: skip
async def test_bad_subscriptions_are_refused(topics: Topics, body: object) -> None:
    """400 with the key."""
    await topics.create("t")
    assert (await topics.ask("PUT", "topics/t/subscriptions/s", body)).status == 400


async def test_everything_wrong_is_said_at_once(topics: Topics) -> None:
    """In one answer, each with its key."""
    await topics.create("t")
    body = {
        "url": "ftp://x", "deliver": {}, "dead_letter_topic": "noslash",
        "delivery": {"minimum_delay": 5, "maximum_delay": 1, "jitter": "ful"},
    }  # fmt: skip
    refused = await topics.ask("PUT", "topics/t/subscriptions/s", body)
    assert (refused.status, refused.code) == (400, "bad_subscription")
    message = refused.body["error"]["message"]
    for part in ("url: ", "deliver: unknown key", "dead_letter_topic must be namespace/name", "delivery.maximum_delay",
                 "delivery.jitter", "did you mean full"):  # fmt: skip
        assert part in message


async def test_names_and_topics_are_checked(topics: Topics) -> None:
    """A bad name is 400, a missing topic 404."""
    assert (await topics.ask("PUT", "topics/t/subscriptions/s", {"url": URL})).status == 404
    await topics.create("t")
    assert (await topics.ask("PUT", "topics/t/subscriptions/a.b", {"url": URL})).status == 400
