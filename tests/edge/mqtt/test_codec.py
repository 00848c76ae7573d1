"""Fields are read as they were written, and nothing is read that is not there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.edges import mqtt_packets as client

from fairlead_edge.mqtt import codec
from fairlead_edge.mqtt.codec import FieldReader, Id, PacketBytes, PacketReader, TooLong
from fairlead_edge.mqtt.reasons import Code, MqttRefused
from fairlead_wire.validation import mqtt_text


@given(st.integers(0, 268_435_455))
def test_a_length(value: int) -> None:
    written = codec.length_field(value)
    cursor = FieldReader(written)
    assert (cursor.length(), cursor.left) == (value, 0)
    assert len(written) <= 4


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=100))
def test_a_text(value: str) -> None:
    assert FieldReader(codec.text_field(value)).text() == mqtt_text.safe(value)


def test_what_has_no_place_in_a_packet_is_not_cut() -> None:
    assert FieldReader(codec.text_field("é" * 32_767)).text() == "é" * 32_767
    for too_long in (lambda: codec.text_field("é" * 32_768), lambda: codec.binary_field(b"x" * 65_536)):
        with pytest.raises(TooLong, match="65536 bytes, and MQTT allows 65535"):
            too_long()


@pytest.mark.parametrize("content", [b"", b"\x00", b"\x00\x02a", b"\x80\x00", b"\xff\xff\xff\xff\x01", b"\x00\x01\x00"])
def test_what_is_cut_or_wrong_is_refused(content: bytes) -> None:
    with pytest.raises(MqttRefused):
        cursor = FieldReader(content)
        cursor.text() if content[:1] == b"\x00" else cursor.length()


def test_nothing_may_follow_the_end() -> None:
    with pytest.raises(MqttRefused):
        FieldReader(b"x").end()


BYTES_MAX = 4096


@given(
    st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=300)), max_size=8),
    st.lists(st.integers(1, 50), min_size=1, max_size=20),
)
def test_any_pieces_make_the_same_packets(sent: list[tuple[int, bytes]], sizes: list[int]) -> None:
    content = b"".join(client.packet(first, body) for first, body in sent)
    frames, found, at, turn = PacketReader(BYTES_MAX), list[PacketBytes](), 0, 0
    while at < len(content):
        size = sizes[turn % len(sizes)]
        found += frames.feed(content[at : at + size])
        at, turn = at + size, turn + 1
    assert found == [PacketBytes(*each) for each in sent]
    assert frames.waiting_bytes == 0
    assert frames.wrong is None


def test_a_packet_that_says_it_is_too_large_is_refused_before_it_comes() -> None:
    frames = PacketReader(100)
    assert frames.feed(client.packet(0x30, b"x" * 98)) == [PacketBytes(0x30, b"x" * 98)]
    assert frames.feed(b"\xc0\x00" + client.packet(0x30, b"x" * 99)[:2]) == [PacketBytes(0xC0, b"")]
    assert frames.wrong is not None
    assert frames.wrong.code is Code.PACKET_TOO_LARGE
    assert frames.waiting_bytes == 0
    assert frames.feed(client.PINGREQ) == []


def test_a_length_that_never_ends_is_malformed() -> None:
    for content in (b"\x30\xff\xff\xff\xff", b"\x30\x80\x00"):
        frames = PacketReader(BYTES_MAX)
        for byte in content:
            assert frames.feed(bytes([byte])) == []
        assert frames.wrong is not None
        assert frames.wrong.code is Code.MALFORMED_PACKET


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20).map(mqtt_text.safe)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        Id.MESSAGE_EXPIRY_INTERVAL: st.integers(0, 2**32 - 1),
        Id.CONTENT_TYPE: TEXT,
        Id.CORRELATION_DATA: st.binary(max_size=20),
        Id.TOPIC_ALIAS: st.integers(0, 65_535),
        Id.SUBSCRIPTION_IDENTIFIER: st.integers(1, 268_435_455),
        Id.PAYLOAD_FORMAT_INDICATOR: st.integers(0, 1),
    },
)


@given(VALUES, st.lists(st.tuples(TEXT, TEXT), max_size=4))
def test_they_are_read_as_they_were_written(values: dict[Id, Any], user: list[tuple[str, str]]) -> None:
    cursor = FieldReader(codec.write_properties(values.items(), user) + b"rest")
    found = codec.read_properties(cursor, codec.PUBLISH)
    assert (found.values, found.user) == (values, tuple(user))
    assert cursor.rest() == b"rest"


def written(*parts: bytes) -> bytes:
    content = b"".join(parts)
    return codec.length_field(len(content)) + content


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (written(b"\x7f\x00"), Code.MALFORMED_PACKET),
        (written(b"\x24\x01"), Code.PROTOCOL_ERROR),
        (written(b"\x23\x00\x01", b"\x23\x00\x01"), Code.PROTOCOL_ERROR),
        (written(b"\x01\x02"), Code.PROTOCOL_ERROR),
        (written(b"\x0b\x00"), Code.PROTOCOL_ERROR),
        (written(b"\x02\x00"), Code.MALFORMED_PACKET),
        (b"\x05\x01", Code.MALFORMED_PACKET),
        (written(b"\x26\x00\x00\x00\x00" * 1001), Code.PROTOCOL_ERROR),
    ],
)
def test_refusals(content: bytes, code: Code) -> None:
    with pytest.raises(MqttRefused) as caught:
        codec.read_properties(FieldReader(content), codec.PUBLISH)
    assert caught.value.code is code
