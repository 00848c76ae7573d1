"""What the agent writes is what paho's reader and ours take."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.edges import mqtt_packets as client

from fairlead_edge.mqtt import packets
from fairlead_edge.mqtt.codec import Id, PacketReader
from fairlead_edge.mqtt.packets import Puback, PublishPacket
from fairlead_edge.mqtt.reasons import Code
from fairlead_wire.validation import mqtt_text

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40).map(mqtt_text.safe)


@given(st.sampled_from([4, 5]), TEXT, st.binary(max_size=300), st.integers(0, 1), st.lists(st.tuples(TEXT, TEXT)))
def test_a_publish_is_read_as_it_was_written(
    level: int, topic: str, payload: bytes, qos: int, user: list[tuple[str, str]]
) -> None:
    content = packets.publish(level, topic, payload, qos=qos, packet=7 if qos else 0, values=[], user=user)
    [frame] = PacketReader(1 << 20).feed(content)
    found = packets.read(frame, level)
    assert isinstance(found, PublishPacket)
    assert (found.topic, found.payload, found.qos) == (topic, payload, qos)
    assert found.properties.user == (tuple(user) if level == 5 else ())


@given(st.sampled_from([4, 5]), st.integers(1, 65_535), st.sampled_from(list(Code)), st.text(max_size=2000))
def test_a_puback_says_why_in_5_alone(level: int, id: int, code: Code, reason: str) -> None:
    [frame] = PacketReader(1 << 20).feed(packets.puback(level, id, code, reason.replace("\0", "")))
    found = packets.read(frame, level)
    assert found == Puback(id, code if level == 5 else 0)


def test_a_connack_and_a_suback_of_3_know_few_codes() -> None:
    assert packets.connack(4, Code.NOT_AUTHORIZED) == b"\x20\x02\x00\x05"
    assert packets.connack(4, Code.SUCCESS, session_present=True, values=[(Id.MAXIMUM_QOS, 1)]) == b"\x20\x02\x01\x00"
    assert packets.connack(4, Code.QUOTA_EXCEEDED) == b"\x20\x02\x00\x03"
    assert packets.suback(4, 1, [0, 1, Code.NOT_AUTHORIZED]) == b"\x90\x05\x00\x01\x00\x01\x80"
    assert packets.unsuback(4, 1, [Code.SUCCESS]) == b"\xb0\x02\x00\x01"
    assert packets.disconnect(4, Code.SERVER_BUSY, "why") == b""


def test_a_connack_of_5_carries_its_properties() -> None:
    [found], _ = client.split(
        packets.connack(5, Code.SUCCESS, values=[(Id.RECEIVE_MAXIMUM, 9), (Id.MAXIMUM_QOS, None)])
    )
    assert found.body == b"\x00\x00\x03\x21\x00\x09"
