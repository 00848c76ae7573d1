"""Ids: 20 bytes, byte order is order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_messaging.api.errors import Refused
from fairlead_messaging.api.message_id import (
    FIRST,
    LAST,
    NO_PAYLOAD,
    TIMESTAMP_MAX,
    Position,
    before,
    before_time,
    decode_position,
    id_of,
    parse_hex,
    timestamp_of,
)
from fairlead_messaging.api.responses import Message

POSITIONS = st.builds(Position, st.integers(0, TIMESTAMP_MAX), st.integers(0, 0xFFFF))


@given(POSITIONS, POSITIONS)
def test_byte_order_is_order(a: Position, b: Position) -> None:
    """Sequences above 32767 too: they are unsigned."""
    assert (a < b) == (a.encode() < b.encode())
    assert decode_position(a.encode()) == a


@given(POSITIONS)
def test_before_is_the_next_lower_id(position: Position) -> None:
    message_id = id_of(position.encode())
    lower = before(message_id)
    assert lower < message_id or message_id == FIRST
    assert int.from_bytes(message_id, "big") - int.from_bytes(lower, "big") in (0, 1)


def test_times() -> None:
    start = before_time(5)
    assert start < Position(5, 0).encode() + NO_PAYLOAD
    assert start > Position(4, 0xFFFF).encode() + NO_PAYLOAD
    assert before_time(0) == FIRST
    assert before_time(2**64) < LAST
    assert timestamp_of(Position(77, 1).encode() + NO_PAYLOAD) == 77


@pytest.mark.parametrize("text", ["", "00" * 19, "00" * 21, "zz" * 20, " " + "00" * 20, "0 " * 20, "é" * 40])
def test_malformed_ids_are_refused(text: str) -> None:
    with pytest.raises(Refused):
        parse_hex(text)


def test_hex_in_either_case() -> None:
    assert parse_hex("AB" * 20) == parse_hex("ab" * 20)


@pytest.mark.parametrize(("message_id", "at"), [("0000018bcfe56800" + "0" * 24, 1_700_000_000_000), ("", 0), ("x", 0)])
def test_an_id_holds_when_it_was_published(message_id: str, at: int) -> None:
    assert Message(id=message_id, payload=b"").published_ms == at
