"""Topics: names, properties, generations, system topics."""

from __future__ import annotations

import pytest

from fairlead_messaging.api.errors import Refused
from fairlead_messaging.server.log import topic
from fairlead_messaging.server.log.topic import Topic


def test_a_record_comes_back() -> None:
    """Names are not in the value: they are the key."""
    made = Topic(namespace="n", name="t", generation=-3, ttl_seconds=5, properties={"b": "2", "a": "1"})
    assert topic.decode("n", "t", topic.encode(made)) == made
    assert not made.exists


def test_properties_become_text() -> None:
    """Numbers and booleans too; ttl and generation are not the caller's to keep."""
    assert topic.parse_properties({"a": 1, "b": True, "c": "x", "ttl": "5", "generation": 9}, 7) == (
        5, {"a": "1", "b": "true", "c": "x"},
    )  # fmt: skip
    assert topic.parse_properties(None, 7) == (7, {})


@pytest.mark.parametrize(
    "raw", [[], "x", {"a": None}, {"a": {}}, {"transactional": "x"}, {"a": "x" * 5000}, {str(n): "" for n in range(65)}]
)
def test_bad_properties(raw: object) -> None:
    """Refused, each with its reason."""
    with pytest.raises(Refused):
        topic.parse_properties(raw, 7)


def test_system_topics() -> None:
    """Blanks are trimmed, prefixes expand, repeats count once."""
    assert topic.expand_system_topics([" audit ", "m:3", "m1"]) == ["audit", "m0", "m1", "m2"]
    for bad in ("", "a b", "m:", "m:0", "m:x", "m:99999", ":3"):
        with pytest.raises(ValueError, match=r"not a topic name|must be a prefix"):
            topic.expand_system_topics([bad])
