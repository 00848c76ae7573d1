"""A letter as a line, and back, whatever its payload is."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_ingest import dead_letters

NOW = datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC)


@given(st.binary() | st.text().map(str.encode), st.text(), st.text())
def test_what_is_exported_is_read_again_to_the_byte(payload: bytes, topic: str, error: str) -> None:
    """Text as text, anything else in base64; a line is one line."""
    letter = {"_topic": topic, "_id": "0a", "_published_at": NOW, "error": error, "payload": payload}
    written = dead_letters.encode(letter)
    assert written.endswith(b"\n") and written.count(b"\n") == 1
    assert dead_letters.decode(written) == dead_letters.Edited(topic=topic, id="0a", payload=payload)


def test_a_message_may_be_an_object() -> None:
    """To the letter, so that numbers keep their digits."""
    found = dead_letters.decode(b'{"topic": "a", "id": "0a", "payload": {"id": 1.10}, "note": "mine"}')
    assert found.payload == b'{"id": 1.10}'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"nonsense", "malformed"),
        (b"[]", "object"),
        (b'{"topic": "a"}', "id"),
        (b'{"topic": "a", "id": "b"}', "payload_base64"),
        (b'{"topic": "a", "id": "b", "payload": "x", "payload_base64": "eA=="}', "not both"),
        (b'{"topic": "a", "id": "b", "payload": 1}', "a text or an object"),
        (b'{"topic": "a", "id": "b", "payload_base64": "x"}', "no base64"),
        (b'{"topic": "a", "id": "b", "payload": "\xff"}', "utf-8"),
    ],
)
def test_what_is_no_such_line_is_refused(text: bytes, reason: str) -> None:
    with pytest.raises(dead_letters.BadLine, match=reason):
        dead_letters.decode(text)
