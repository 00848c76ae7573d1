"""What is stored of a PUBLISH, and what a subscriber gets of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead_edge.mqtt import messages
from fairlead_edge.mqtt.codec import Id, PacketProperties
from fairlead_edge.mqtt.packets import PublishPacket
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
    """In a packet it is malformed; behind a topic it comes percent-encoded."""
    for bag in ("a=%00", "%00=1", "$.ct=%00", "$.cid=a%00"):
        topic = f"devices/edge-1/modules/m/messages/events/{bag}"
        found = messages.content(PublishPacket(topic, b"1"), ANY_PROGRAM, node="edge-1", other_topics=False)
        assert isinstance(found, RefusalReason) and "holds U+0000" in found.message
    binary = content(b"x", correlation_data=b"\x00\x01")
    assert isinstance(binary, Submission) and binary.system_properties == {"correlationId": "\x00\x01"}
