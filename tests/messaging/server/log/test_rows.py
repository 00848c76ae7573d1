"""Rows survive the way to bytes and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.topics.messaging_core import Core, publish

from fairlead_messaging.api.message_id import FIRST
from fairlead_messaging.server.log import keys, reader, rows
from fairlead_messaging.server.log.rows import LoggedMessage, RowState, columns
from fairlead_messaging.server.log.topic import TopicGeneration


@given(st.binary(max_size=30), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), st.booleans())
def test_round_trip_and_rollback_mark(payload: bytes, ttl: int, pointer: int, is_reference: bool) -> None:
    value = rows.encode(payload, ttl, pointer, is_reference=is_reference)
    assert rows.decode(value) == rows.MessageRow(pointer, ttl, is_reference, payload)
    marked = rows.rolled_back(value)
    assert rows.decode(marked) == rows.MessageRow(-pointer, ttl, is_reference, payload)
    assert rows.rolled_back(marked) == marked


def test_a_plain_message_costs_one_byte() -> None:
    assert rows.encode(b"abc") == b"\x00abc"


@pytest.mark.slow
@given(st.lists(st.tuples(st.binary(max_size=9), st.integers(0, 9))), st.integers(0, 2**63 - 1), st.booleans())
def test_many_rows_are_encoded_as_each_of_them(messages: list[tuple[bytes, int]], pointer: int, has_ttls: bool) -> None:
    payloads, ttls = [payload for payload, _ in messages], [ttl for _, ttl in messages] if has_ttls else []
    expected = [rows.encode(payload, ttl if has_ttls else 0, pointer) for payload, ttl in messages]
    assert rows.encode_all(payloads, ttls, pointer) == expected


def test_bare_payloads_and_messages_are_the_same_columns() -> None:
    assert columns([b"a", b"b"]) == ([b"a", b"b"], [])
    assert columns([b"a", LoggedMessage(b"b")]) == ([b"a", b"b"], [])
    assert columns([b"a", LoggedMessage(b"b", 5)]) == ([b"a", b"b"], [0, 5])


def test_a_page_shows_what_is_committed_skips_what_is_aborted_and_ends_at_what_is_neither(core: Core) -> None:
    pointers = [core.start() for _ in range(3)]
    for pointer in pointers:
        core.do(publish("t", f"of {pointers.index(pointer)}", pointer=pointer))
    states = dict(zip(pointers, (RowState.ABORTED, RowState.COMMITTED, RowState.UNCOMMITTED), strict=True))
    with core.kv.snapshot() as snapshot:
        page = reader.read(
            snapshot, core.topic("t"), after=FIRST, limit=10, bytes_max=100, now_ms=core.now_ms,
            states=states.__getitem__,
        )  # fmt: skip
    assert (page.payloads, page.aborted, page.blocked, page.complete) == ([b"of 1"], 1, True, True)


# --- Keys keep neighbours apart and numbers in order.


NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True)


def topic(namespace: str, name: str, generation: int) -> TopicGeneration:
    return TopicGeneration(namespace=namespace, name=name, generation=generation, ttl_seconds=1)


@pytest.mark.slow
@given(a=st.tuples(NAMES, NAMES), b=st.tuples(NAMES, NAMES))
def test_no_topics_rows_lie_within_anothers(a: tuple[str, str], b: tuple[str, str]) -> None:
    first, second = keys.table(keys.MESSAGE, topic(*a, 1)), keys.table(keys.MESSAGE, topic(*b, 1))
    assert (a == b) == second.startswith(first)


@given(NAMES, NAMES)
def test_names_come_back_out_of_a_metadata_key(namespace: str, name: str) -> None:
    assert keys.metadata_names(keys.metadata(namespace, name)) == (namespace, name)


@pytest.mark.parametrize(
    ("data", "present", "dead"),
    [(3, 5, True), (3, -3, True), (6, 5, False), (6, 6, False), (6, -5, False), (2, -3, True), (3, 3, False)],
)
def test_which_generations_are_dead(data: int, present: int, dead: bool) -> None:
    """Those below the present one, and the present one itself once it is deleted (negative)."""
    low, high = keys.dead_generations(keys.MESSAGE, topic("n", "t", present))
    assert (low <= keys.table(keys.MESSAGE, topic("n", "t", data)) + bytes(10) < high) is dead


def test_above_is_past_every_key_with_the_prefix() -> None:
    assert keys.above(b"a\xff") == b"b\x00"
    assert keys.above(b"a") == b"b"
