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

POSITIONS = st.builds(Position, st.integers(0, TIMESTAMP_MAX), st.integers(0, 0xFFFF))


@given(POSITIONS, POSITIONS)
def test_byte_order_is_order(a: Position, b: Position) -> None:
    """Sequences above 32767 too: they are unsigned."""
    assert (a < b) == (a.encode() < b.encode())
    assert decode_position(a.encode()) == a


@given(POSITIONS)
def test_before_is_the_next_lower_id(position: Position) -> None:
    """Nothing fits between."""
    message_id = id_of(position.encode())
    lower = before(message_id)
    assert lower < message_id or message_id == FIRST
    assert int.from_bytes(message_id, "big") - int.from_bytes(lower, "big") in (0, 1)


def test_times() -> None:
    """Exclusive of what lies before, inclusive of the millisecond."""
    start = before_time(5)
    assert start < Position(5, 0).encode() + NO_PAYLOAD
    assert start > Position(4, 0xFFFF).encode() + NO_PAYLOAD
    assert before_time(0) == FIRST
    assert before_time(2**64) < LAST
    assert timestamp_of(Position(77, 1).encode() + NO_PAYLOAD) == 77


@pytest.mark.parametrize("text", ["", "00" * 19, "00" * 21, "zz" * 20, " " + "00" * 20, "0 " * 20, "é" * 40])
def test_malformed_ids_are_refused(text: str) -> None:
    """Never anything but a refusal."""
    with pytest.raises(Refused):
        parse_hex(text)


def test_hex_in_either_case() -> None:
    """As people copy it."""
    assert parse_hex("AB" * 20) == parse_hex("ab" * 20)
