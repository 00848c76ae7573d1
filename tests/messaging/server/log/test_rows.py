"""Rows survive the way to bytes and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.topics.messaging_core import Core, publish

from fairlead_messaging.api.message_id import FIRST, Position, id_of
from fairlead_messaging.server.log import reader, rows
from fairlead_messaging.server.log.rows import LoggedMessage, RowState, Uncommitted, columns
from fairlead_messaging.server.transactions.commands import Start


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


# --- Messages on their way in.


def test_a_message_lives_as_long_as_its_topic_unless_it_says_otherwise() -> None:
    """0 means the topic's ttl."""
    assert LoggedMessage(b"a").ttl_seconds == 0


def test_bare_payloads_and_messages_are_the_same_columns() -> None:
    """Times to live are a column only where one has its own."""
    assert columns([b"a", b"b"]) == ([b"a", b"b"], [])
    assert columns([b"a", LoggedMessage(b"b")]) == ([b"a", b"b"], [])
    assert columns([b"a", LoggedMessage(b"b", 5)]) == ([b"a", b"b"], [0, 5])


# --- Reading asks for a row's state and knows nothing of transactions.


def test_a_page_shows_what_is_committed_skips_what_is_aborted_and_ends_at_what_is_neither() -> None:
    """The three states are all that reading needs."""
    core = Core()
    core.create("t")
    pointers = [core.do(Start(timeout_seconds=30)).transaction.pointer for _ in range(3)]
    for pointer in pointers:
        core.do(publish("t", f"of {pointers.index(pointer)}", pointer=pointer))
    states = dict(zip(pointers, (RowState.ABORTED, RowState.COMMITTED, RowState.UNCOMMITTED), strict=True))
    with core.kv.snapshot() as snapshot:
        page = reader.read(
            snapshot, core.topic("t"), after=FIRST, limit=10, bytes_max=100, now_ms=core.now_ms,
            states=states.__getitem__,
        )  # fmt: skip
    assert (page.payloads, page.aborted, page.blocked, page.complete) == ([b"of 1"], 1, True, True)


def test_the_first_uncommitted_message_says_since_when_it_is_there() -> None:
    """Its id begins with the time of its publication."""
    found = Uncommitted(message_id=id_of(Position(1234, 5).encode()), pointer=7)
    assert found.since_ms == 1234
