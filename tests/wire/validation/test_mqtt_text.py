"""Text MQTT can carry."""

from __future__ import annotations

import pytest

from fairlead_wire.validation import mqtt_text


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800", "\udfff"])
def test_what_no_packet_may_hold(text: str) -> None:
    assert mqtt_text.is_forbidden(text)
    assert mqtt_text.safe(text) == text.replace(text.strip("ab"), "\ufffd")


@pytest.mark.parametrize(
    "character", ["\x01", "\n", "\t", "\x7f", "\x85", "\ufdd0", "\ufeff", "\uffff", "\U0001fffe", "\U0010ffff"]
)
def test_what_some_clients_close_their_connection_for_is_taken_and_replaced(character: str) -> None:
    assert not mqtt_text.is_forbidden(character)
    assert mqtt_text.safe(f"a{character}b") == "a\ufffdb"


@pytest.mark.parametrize("text", ["", "plain", "€ é 日本 😀", "\u00a0", "\ufffd"])
def test_other_text_is_as_it_was(text: str) -> None:
    assert mqtt_text.safe(text) == text and not mqtt_text.is_forbidden(text)


def test_it_says_where_it_is() -> None:
    assert mqtt_text.wrong_in({"a": None, "b": "fine\n"}, {"contentType": "text/plain"}) == ""
    assert mqtt_text.wrong_in({"a\0": None}, {}).startswith("properties: 'a\\x00' contains U+0000")
    assert mqtt_text.wrong_in({}, {"contentType": "\0"}).startswith("systemProperties: 'contentType' contains U+0000")
