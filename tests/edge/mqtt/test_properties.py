"""Properties of MQTT 5: read as written, each in its place and once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_edge.mqtt import codec
from fairlead_edge.mqtt.codec import FieldReader, Id
from fairlead_edge.mqtt.reasons import Code, MqttRefused
from fairlead_wire.validation import mqtt_text

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
