"""Topics: names, properties, generations, system topics."""

from __future__ import annotations

import pytest

from fairlead_messaging.api.errors import Refused
from fairlead_messaging.server.log import topic
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_wire.delivery_policy import DeliveryPolicy


def test_a_record_comes_back() -> None:
    """Names are not in the value: they are the key."""
    made = TopicGeneration(namespace="n", name="t", generation=-3, ttl_seconds=5, properties={"b": "2", "a": "1"})
    assert topic.decode("n", "t", topic.encode(made)) == made
    assert not made.exists


def test_properties_become_text() -> None:
    assert topic.parse_properties({"a": 1, "b": True, "c": "x", "ttl": "5", "generation": 9}, 7) == (
        5, {"a": "1", "b": "true", "c": "x"}, None,
    )  # fmt: skip
    assert topic.parse_properties(None, 7) == (7, {}, None)


def test_a_delivery_policy_is_kept_as_it_was_given() -> None:
    found = topic.parse_properties({"delivery": {"minimum_delay": 1, "maximum_delay": 9}}, 7)
    made = TopicGeneration(namespace="n", name="t", generation=1, ttl_seconds=7, delivery=found.delivery)
    kept = topic.decode("n", "t", topic.encode(made))
    assert kept == made
    assert kept.policy == DeliveryPolicy(minimum_delay=1, maximum_delay=9)
    assert kept.shown_properties()["delivery"] == {"minimum_delay": 1, "maximum_delay": 9}
    assert topic.parse_properties({"delivery": None}, 7).delivery is None
    zaqar = {"compatibility": "zaqar", "minimum_delay": 5, "maximum_delay": 30, "its own": "x" * 100}
    assert topic.parse_properties({"delivery": zaqar}, 7).delivery == {
        "minimum_delay": 5, "maximum_delay": 30, "compatibility": "zaqar",
    }  # fmt: skip


def test_all_mistakes_are_said_at_once() -> None:
    wrong = {
        "delivery": {"minimum_delay": 9, "maximum_delay": 3, "jitter": "ful", "retries": 1}, "ttl": 0,
        "transactional": "x", "a": [],
    }  # fmt: skip
    with pytest.raises(Refused) as refused:
        topic.parse_properties(wrong, 7)
    assert refused.value.code == "bad_properties"
    for part in ("delivery.maximum_delay", "delivery.jitter", "did you mean full", "delivery.retries", "ttl must",
                 "transactional must", "property 'a'"):  # fmt: skip
        assert part in refused.value.message
    with pytest.raises(Refused) as refused:
        topic.parse_properties({"ttl": 0, "delivery": 5}, 7)
    assert refused.value.code == "bad_ttl" and "delivery: must be an object" in refused.value.message


@pytest.mark.parametrize(
    "raw", [[], "x", {"a": None}, {"a": {}}, {"transactional": "x"}, {"a": "x" * 5000}, {str(n): "" for n in range(65)}]
)
def test_bad_properties(raw: object) -> None:
    with pytest.raises(Refused):
        topic.parse_properties(raw, 7)


def test_system_topics() -> None:
    assert topic.expand_system_topics([" audit ", "m:3", "m1"]) == ["audit", "m0", "m1", "m2"]
    for bad in ("", "a b", "m:", "m:0", "m:x", "m:99999", ":3"):
        with pytest.raises(ValueError, match=r"not a topic name|must be a prefix"):
            topic.expand_system_topics([bad])
