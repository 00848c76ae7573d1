"""What clients send is read back as it was written, and nothing that is not MQTT gets through or breaks the reader."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.edges import mqtt_packets as client

from fairlead_edge.mqtt import packets
from fairlead_edge.mqtt.codec import Id, PacketBytes, PacketReader
from fairlead_edge.mqtt.packets import Connect, Puback, PublishPacket, Subscribe
from fairlead_edge.mqtt.reasons import Code, MqttRefused
from fairlead_wire.validation import mqtt_text

LEVELS = st.sampled_from([4, 5])
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)


def read(content: bytes, level: int = 4) -> packets.Packet:
    [found], rest = client.split(content)
    assert rest == b""
    return packets.read(PacketBytes(content[0], found.body), level)


@pytest.mark.slow
@given(LEVELS, TEXT, st.binary(max_size=200), st.integers(0, 1), st.integers(1, 65_535), st.booleans(), st.booleans())
def test_publish(level: int, topic: str, payload: bytes, qos: int, id: int, dup: bool, retain: bool) -> None:
    dup = dup and bool(qos)
    found = read(client.publish(topic, payload, level=level, qos=qos, id=id, dup=dup, retain=retain), level)
    assert isinstance(found, PublishPacket)
    assert (found.topic, found.payload, found.qos, found.dup, found.retain) == (topic, payload, qos, dup, retain)
    assert found.packet == (id if qos else 0)


@pytest.mark.slow
@given(
    LEVELS,
    TEXT,
    st.booleans(),
    st.integers(0, 65_535),
    st.none() | st.tuples(TEXT, st.binary(max_size=50)),
    st.none() | st.tuples(TEXT, st.none() | st.binary(max_size=50)),
)
def test_connect(
    level: int,
    client_id: str,
    clean: bool,
    keep_alive: int,
    will: tuple[str, bytes] | None,
    login: tuple[str, bytes | None] | None,
) -> None:
    user, password = login or (None, None)
    content = client.connect(
        client_id, level=level, clean=clean, keep_alive=keep_alive, will=will, user=user, password=password
    )
    found = read(content, 0)
    assert isinstance(found, Connect)
    assert (found.level, found.client_id, found.clean, found.keep_alive) == (level, client_id, clean, keep_alive)
    assert (found.user_name, found.password) == (user, password)
    assert (found.will and (found.will.message.topic, found.will.message.payload)) == will


@pytest.mark.slow
@given(LEVELS, st.lists(st.tuples(TEXT, st.integers(0, 2)), min_size=1, max_size=5), st.integers(1, 65_535))
def test_subscribe(level: int, filters: list[tuple[str, int]], id: int) -> None:
    found = read(client.subscribe(filters, id=id, level=level), level)
    assert isinstance(found, Subscribe)
    assert (found.packet, [(each.text, each.qos) for each in found.filters]) == (id, filters)


@given(st.integers(0, 255), st.binary(max_size=60), st.sampled_from([0, 4, 5]))
def test_any_bytes_are_a_packet_or_refused(first: int, body: bytes, level: int) -> None:
    try:
        packets.read(PacketBytes(first, body), level)
    except MqttRefused as refused:
        assert refused.code >= 0x80
        assert str(refused)


@pytest.mark.parametrize(
    ("content", "level", "code"),
    [
        (client.connect(protocol="MQIsdp", level=3), 0, Code.UNSUPPORTED_PROTOCOL_VERSION),
        (client.connect(level=6), 0, Code.UNSUPPORTED_PROTOCOL_VERSION),
        (client.connect(protocol="HTTP"), 0, Code.UNSUPPORTED_PROTOCOL_VERSION),
        (client.publish("a", qos=3), 4, Code.MALFORMED_PACKET),
        (client.publish("a", id=0), 4, Code.PROTOCOL_ERROR),
        (client.publish("a\0b"), 4, Code.MALFORMED_PACKET),
        (client.packet(0x30, client.field(b"\xff\xfe")), 4, Code.MALFORMED_PACKET),
        (client.packet(0x82, b"\0\1"), 4, Code.PROTOCOL_ERROR),
        (client.packet(0x80, b"\0\1"), 4, Code.MALFORMED_PACKET),
        (client.packet(0x50, b"\0\1"), 4, Code.PROTOCOL_ERROR),
        (client.packet(0xF0, b""), 5, Code.PROTOCOL_ERROR),
        (client.packet(0x00, b""), 5, Code.MALFORMED_PACKET),
        (client.packet(0xC0, b"x"), 4, Code.MALFORMED_PACKET),
        (client.subscribe([("a", 0)], level=5, more=b"\x0b\x01"), 5, Code.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED),
        (client.subscribe([("a", 0)] * 101), 4, Code.QUOTA_EXCEEDED),
        (client.publish("a", level=5, more=b"\x11\0\0\0\1"), 5, Code.PROTOCOL_ERROR),
    ],
)
def test_refusals(content: bytes, level: int, code: Code) -> None:
    with pytest.raises(MqttRefused) as caught:
        read(content, level)
    assert caught.value.code is code


SENTENCE = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40).map(mqtt_text.safe)


@pytest.mark.slow
@given(
    st.sampled_from([4, 5]),
    SENTENCE,
    st.binary(max_size=300),
    st.integers(0, 1),
    st.lists(st.tuples(SENTENCE, SENTENCE)),
)
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
