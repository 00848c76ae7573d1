"""Rows survive the way to bytes and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead_messaging.server.log import rows


@given(st.binary(max_size=30), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), st.booleans())
def test_round_trip_and_rollback_mark(payload: bytes, ttl: int, pointer: int, is_reference: bool) -> None:
    """The mark turns the pointer's sign, once and for all, and changes nothing else."""
    value = rows.encode(payload, ttl, pointer, is_reference=is_reference)
    assert rows.decode(value) == rows.MessageRow(pointer, ttl, is_reference, payload)
    marked = rows.rolled_back(value)
    assert rows.decode(marked) == rows.MessageRow(-pointer, ttl, is_reference, payload)
    assert rows.rolled_back(marked) == marked


def test_a_plain_message_costs_one_byte() -> None:
    """The common case is the short one."""
    assert rows.encode(b"abc") == b"\x00abc"


@given(st.lists(st.tuples(st.binary(max_size=9), st.integers(0, 9))), st.integers(0, 2**63 - 1), st.booleans())
def test_many_rows_are_encoded_as_each_of_them(messages: list[tuple[bytes, int]], pointer: int, has_ttls: bool) -> None:
    """With and without times to live of their own."""
    payloads, ttls = [payload for payload, _ in messages], [ttl for _, ttl in messages] if has_ttls else []
    expected = [rows.encode(payload, ttl if has_ttls else 0, pointer) for payload, ttl in messages]
    assert rows.encode_all(payloads, ttls, pointer) == expected
