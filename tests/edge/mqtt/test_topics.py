"""What topics mean here: sources of messages, inputs of subscriptions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_edge.mqtt import topics
from fairlead_edge.mqtt.reasons import Code
from fairlead_edge.mqtt.topics import Destination, InputFilter
from fairlead_edge.outbox import envelope
from fairlead_edge.outbox.publishing import RefusalReason


def of(topic: str, *, other_topics: bool = False) -> Destination | RefusalReason:
    return topics.destination(topic, node="edge-1", other_topics=other_topics)


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("fairlead/camera/frames", Destination("/messages/modules/camera/outputs/frames")),
        ("devices/edge-1/modules/m/messages/events/", Destination("/messages/modules/m")),
        ("devices/edge-1/modules/m/messages/events", Destination("/messages/modules/m")),
        (
            "devices/edge-1/modules/m/messages/events/%24.on=o&a=1&b&%24.ct=text%2Fplain",
            Destination("/messages/modules/m/outputs/o", {"a": "1", "b": None}, {"contentType": "text/plain"}),
        ),
        (
            "devices/meter/messages/events/x=%C3%A9",
            Destination("/messages", {"x": "é"}, {"connectionDeviceId": "meter"}),
        ),
    ],
)
def test_a_message_comes_from(topic: str, expected: Destination) -> None:
    assert of(topic) == expected


@pytest.mark.parametrize(
    "topic",
    [
        "", "a/+", "#", "fairlead/m", "fairlead/m/o/x", "fairlead//o", "fairlead/m/",
        "$iothub/twin/PATCH/properties/reported/", "$SYS/x", "devices/edge-2/modules/m/messages/events/",
        "devices/edge-1/modules/m/messages/events/%24.on=a%2Fb", "devices/edge-1/modules/m/messages/events/a=%FF",
        "devices", "devices/x", "devices/x/messages", "plain/topic",
    ],
)  # fmt: skip
def test_a_topic_that_is_none_of_ours_is_refused(topic: str) -> None:
    found = of(topic)
    assert isinstance(found, RefusalReason)
    assert found.code in ("bad_source", "bad_message")


def test_other_topics_are_taken_where_that_is_set() -> None:
    assert of("plain/topic", other_topics=True) == Destination("/messages/mqtt/plain/topic", is_other=True)
    assert isinstance(of("$x", other_topics=True), RefusalReason)
    assert isinstance(of("fairlead/m", other_topics=True), RefusalReason)


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ("fairlead/m/inputs/i", InputFilter("fairlead/m/inputs/i", "m", "i", False)),
        ("devices/edge-1/modules/m/inputs/i", InputFilter("devices/edge-1/modules/m/inputs/i", "m", "i", True)),
        ("devices/edge-1/modules/m/inputs/#", InputFilter("devices/edge-1/modules/m/inputs/#", "m", "", True)),
        ("devices/edge-1/modules/+/inputs/#", Code.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED),
        ("fairlead/m/inputs/#", Code.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED),
        ("#", Code.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED),
        ("$share/g/fairlead/m/inputs/i", Code.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED),
        ("fairlead/m/o", Code.TOPIC_FILTER_INVALID),
        ("fairlead//inputs/i", Code.TOPIC_FILTER_INVALID),
        ("$iothub/methods/POST/", Code.TOPIC_FILTER_INVALID),
        ("fairlead/m/inputs/" + "i" * 2000, Code.TOPIC_FILTER_INVALID),
    ],
)
def test_a_subscription_names_one_input_or_all_of_a_module(filter: str, expected: InputFilter | Code) -> None:
    assert topics.inputs(filter, node="edge-1") == expected


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(st.dictionaries(TEXT.filter(lambda name: not name.startswith("$")), st.none() | TEXT, max_size=4))
def test_properties_survive_the_way_through_a_topic(properties: dict[str, str | None]) -> None:
    message = envelope.StoredMessage(id="i", source="", enqueued_at="", properties=properties, system_properties={})
    asked = InputFilter("", "m", "in", True)
    topic = topics.delivery_topic(asked, "in", message, "edge-1")
    bag = topic.removeprefix("devices/edge-1/modules/m/inputs/in/")
    back = of(f"devices/edge-1/modules/m/messages/events/{bag}")
    assert back == Destination("/messages/modules/m", properties, {"messageId": "i"})
