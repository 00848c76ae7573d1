"""What is stored of a PUBLISH, and what a subscriber gets of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_edge.mqtt import messages, topics
from fairlead_edge.mqtt.codec import Id, PacketProperties
from fairlead_edge.mqtt.packets import PublishPacket
from fairlead_edge.mqtt.reasons import Code
from fairlead_edge.mqtt.topics import Destination, InputFilter
from fairlead_edge.outbox import envelope, manifest, publishing
from fairlead_edge.outbox.authorship import ANY_PROGRAM
from fairlead_edge.outbox.publishing import RefusalReason, Submission
from fairlead_edge.outbox.router import Router

ROUTES = {
    "schemaVersion": "1.1",
    "routes": {"all": "FROM /messages/* INTO $upstream"},
    "storeAndForwardConfiguration": {"timeToLiveSecs": 60},
}
ROUTER = Router(manifest.parse(ROUTES), "edge-1")


def content(payload: bytes, **properties: object) -> Submission | RefusalReason:
    values = {Id[name.upper()]: value for name, value in properties.items()}
    message = PublishPacket("fairlead/m/o", payload, properties=PacketProperties(values, (("a", "1"), ("a", "2"))))
    return messages.content(message, ANY_PROGRAM, node="edge-1", other_topics=False)


@pytest.mark.slow
@given(st.binary(max_size=100) | st.from_regex(rb'\s*("[a-z]*"|[0-9]{1,3}|\{"a":[0-9]\}|\[\])\s*', fullmatch=True))
def test_the_payload_comes_out_as_it_went_in(payload: bytes) -> None:
    found = content(payload)
    plan = publishing.plan([found], ROUTER, new_id=lambda: "ab" * 16, enqueued_at="now")
    stored = envelope.read(plan.entries[0].content)
    assert messages.payload(stored).strip() == payload.strip()


def test_properties_of_level_5() -> None:
    found = content(b"x", content_type="text/plain", correlation_data=b"c1")
    assert isinstance(found, Submission)
    assert found.properties == {"a": "2"}
    assert found.system_properties == {"contentType": "text/plain", "correlationId": "c1"}
    stored = envelope.StoredMessage(
        id="i", source="", enqueued_at="", properties=found.properties, system_properties=found.system_properties
    )
    values, user = messages.delivered_properties(stored, 5)
    assert values == [(Id.CONTENT_TYPE, "text/plain"), (Id.CORRELATION_DATA, b"c1")]
    assert user == [("a", "2")]
    assert messages.delivered_properties(stored, 4) == ([], [])
    other = content(b"x", correlation_data=b"\xff")
    assert isinstance(other, Submission)
    assert other.system_properties == {}


def test_what_is_kept_of_a_refused_message() -> None:
    kept = messages.refused_message(PublishPacket("a/b", b"\x00\xff"), "id", "now")
    assert (kept.system_properties, kept.body_base64) == ({"mqttTopic": "a/b"}, "AP8=")
    assert messages.payload(kept) == b"\x00\xff"


def test_a_message_lives_no_longer_than_it_says() -> None:
    plan = publishing.plan([content(b"1"), content(b"2")], ROUTER, new_id=lambda: "ab" * 16, enqueued_at="now")
    for most, expected in ((5.0, 5.0), (90.0, 60), (None, 60)):
        short = publishing.shortened(plan, [most, None])
        assert [each.references[0].ttl_seconds for each in short.entries] == [expected, 60]


def test_what_no_subscriber_can_get_is_refused_in_a_topic_too() -> None:
    for bag in ("a=%00", "%00=1", "$.ct=%00", "$.cid=a%00"):
        topic = f"devices/edge-1/modules/m/messages/events/{bag}"
        found = messages.content(PublishPacket(topic, b"1"), ANY_PROGRAM, node="edge-1", other_topics=False)
        assert isinstance(found, RefusalReason) and "contains U+0000" in found.message
    binary = content(b"x", correlation_data=b"\x00\x01")
    assert isinstance(binary, Submission) and binary.system_properties == {"correlationId": "\x00\x01"}


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
