"""Fields are read as they were written, and nothing is read that is not there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_edge.mqtt import codec
from fairlead_edge.mqtt.codec import FieldReader, TooLong
from fairlead_edge.mqtt.reasons import MqttRefused
from fairlead_wire.validation import mqtt_text


@given(st.integers(0, 268_435_455))
def test_a_length(value: int) -> None:
    written = codec.length_field(value)
    cursor = FieldReader(written)
    assert (cursor.length(), cursor.left) == (value, 0)
    assert len(written) <= 4


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=100))
def test_a_text(value: str) -> None:
    """No text is written that a client could close its connection for."""
    assert FieldReader(codec.text_field(value)).text() == mqtt_text.safe(value)


def test_what_has_no_place_in_a_packet_is_not_cut() -> None:
    assert FieldReader(codec.text_field("é" * 32_767)).text() == "é" * 32_767
    for too_long in (lambda: codec.text_field("é" * 32_768), lambda: codec.binary_field(b"x" * 65_536)):
        with pytest.raises(TooLong, match="65536 bytes where MQTT carries 65535"):
            too_long()


@pytest.mark.parametrize("content", [b"", b"\x00", b"\x00\x02a", b"\x80\x00", b"\xff\xff\xff\xff\x01", b"\x00\x01\x00"])
def test_what_is_cut_or_wrong_is_refused(content: bytes) -> None:
    with pytest.raises(MqttRefused):
        cursor = FieldReader(content)
        cursor.text() if content[:1] == b"\x00" else cursor.length()


def test_nothing_may_follow_the_end() -> None:
    with pytest.raises(MqttRefused):
        FieldReader(b"x").end()
