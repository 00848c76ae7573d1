"""Arrow pages from rows: whatever a topic holds, the page is the one that judging every row gives."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.topics.messaging_core import NAMESPACE, Core, publish

from fairlead_messaging.api.message_id import FIRST, LAST, NO_PAYLOAD, Position
from fairlead_messaging.server.commands import Publish
from fairlead_messaging.server.log import bulk_page, reader, rows
from fairlead_messaging.server.log.bulk_page import BulkPage
from fairlead_messaging.server.log.rows import LoggedMessage
from fairlead_messaging.server.transactions import visibility
from fairlead_messaging.server.transactions.commands import Abort, MarkAborted, Rollback
from fairlead_messaging.server.transactions.transaction import TransactionView

PIECE_ROWS = 3

PLAIN, SHORT_LIVED, COMMITTED, ABORTED, ROLLED_BACK, STORED, STORED_AND_ABORTED, OPEN, LATER = range(9)
STEPS = st.lists(
    st.tuples(st.sampled_from(range(LATER + 1)), st.lists(st.binary(max_size=4), min_size=1, max_size=5)),
    max_size=8,
)


def acted(steps: list[tuple[int, list[bytes]]]) -> Core:
    """A topic to which all that was done."""
    core = Core()
    core.create("t", ttl_seconds=6)
    for kind, payloads in steps:
        if kind == LATER:
            core.now_ms += 2000
            continue
        messages = [
            LoggedMessage(each, (index % 3) if kind in (SHORT_LIVED, STORED) else 0)
            for index, each in enumerate(payloads)
        ]
        if kind in (PLAIN, SHORT_LIVED):
            core.do(Publish(namespace=NAMESPACE, name="t", messages=messages))
            continue
        pointer = core.start(600)
        if kind in (STORED, STORED_AND_ABORTED):
            core.store(pointer, *messages)
            messages = []
        answered = core.do(Publish(namespace=NAMESPACE, name="t", messages=messages, pointer=pointer))
        if kind == ROLLED_BACK:
            core.do(Rollback(namespace=NAMESPACE, name="t", pointer=pointer, first=answered.first, last=answered.last))
        if kind in (COMMITTED, STORED):
            core.commit(pointer)
        elif kind in (ABORTED, STORED_AND_ABORTED):
            core.do(Abort(pointer=pointer))
            core.do(MarkAborted())
    return core


def bulk(core: Core, *, committed: bool, **how: Any) -> BulkPage:
    with core.kv.snapshot() as snapshot:
        return bulk_page.read(
            snapshot, core.topic("t"), now_ms=core.now_ms,
            states=visibility.row_states(TransactionView(snapshot), None, read_committed=committed), **how,
        )  # fmt: skip


def table(page: BulkPage) -> pa.Table:
    return pa.ipc.open_stream(pa.py_buffer(b"".join(page.parts))).read_all()


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_page, "PIECE_ROWS", PIECE_ROWS)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    steps=STEPS, limit=st.integers(1, 12), bytes_max=st.integers(1, 30), committed=st.booleans(),
    start=st.integers(0, 40), end=st.integers(0, 40),
)  # fmt: skip
def test_a_bulk_page_is_what_judging_each_row_gives(
    steps: list[tuple[int, list[bytes]]], limit: int, bytes_max: int, committed: bool, start: int, end: int
) -> None:
    core = acted(steps)
    places = [FIRST, *core.page("t").ids, LAST]
    how: dict[str, Any] = {
        "after": places[start % len(places)], "upto": places[-1 - end % len(places)], "limit": limit,
        "bytes_max": bytes_max, "committed": committed,
    }  # fmt: skip
    expected, found = core.page("t", **how), bulk(core, **how)
    read = table(found)
    assert read.column("id").to_pylist() == expected.ids
    assert read.column("payload").to_pylist() == expected.payloads
    assert read.column("ts").cast(pa.int64()).to_pylist() == [int.from_bytes(i[:8], "big") * 1000 for i in expected.ids]
    assert found.next_position == expected.next_position
    assert (found.count, found.size) == (len(expected.ids), expected.size)
    assert (found.complete, found.aborted, found.expired) == (expected.complete, expected.aborted, expected.expired)


@settings(max_examples=40, deadline=None)
@given(steps=STEPS, limit=st.integers(1, 5))
def test_every_stored_message_is_read_hidden_or_expired(steps: list[tuple[int, list[bytes]]], limit: int) -> None:
    """Page after page, the three add up to what the topic's ttl left; so what a reader misses is known exactly."""
    core = acted([step for step in steps if step[0] not in (OPEN, LATER)])
    answered = core.page("t", limit=10**6)
    counted, position = 0, FIRST
    while True:
        page = bulk(core, after=position, upto=LAST, limit=limit, bytes_max=10**6, committed=True)
        counted += page.count + page.aborted + page.expired
        if page.complete:
            break
        position = page.next_position
    assert counted == len(answered.ids) + answered.expired


def test_an_empty_topic_is_a_valid_stream(core: Core) -> None:
    page = bulk(core, after=FIRST, upto=LAST, limit=10, bytes_max=10, committed=True)
    assert table(page).num_rows == 0
    assert (page.complete, page.next_position) == (True, core.page("t").next_position)


def test_a_piece_may_be_one_large_row(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_page, "PIECE_BYTES", 8)
    core.do(publish("t", "a" * 20, "b", "c" * 20, "d"))
    page = bulk(core, after=FIRST, upto=LAST, limit=10, bytes_max=41, committed=False)
    assert table(page).column("payload").to_pylist() == [b"a" * 20, b"b", b"c" * 20]


# --- Record batches hold what they were given, and joined they are one stream.


def read(*batches: memoryview) -> Any:
    return pa.ipc.open_stream(pa.py_buffer(b"".join((bulk_page.HEAD, *batches, bulk_page.END)))).read_all()


def test_columns_and_types() -> None:
    message_id = Position(1_700_000_000_123, 7).encode() + NO_PAYLOAD
    table = read(bulk_page.encode([message_id], [b"\x00\xff"]))
    assert table.schema == pa.schema(
        [("id", pa.binary()), ("ts", pa.timestamp("us", tz="UTC")), ("payload", pa.binary())]
    )
    moment = datetime.datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=datetime.UTC)
    assert table.to_pylist() == [{"id": message_id, "ts": moment, "payload": b"\x00\xff"}]


def test_rows_and_messages_make_the_same_columns() -> None:
    positions = [Position(1_700_000_000_000 + number, number) for number in range(4)]
    payloads = [b"", b"a", b"", b"\x00bc"]
    keys = [b"M" + b"prefix" + each.encode() for each in positions]
    plain = read(bulk_page.encode_plain(keys, [rows.encode(each) for each in payloads]))
    assert plain.equals(read(bulk_page.encode([each.encode() + NO_PAYLOAD for each in positions], payloads)))
    assert plain.column("payload").to_pylist() == payloads


# --- Pages: bounds, limits, and that every start leads on.


def filled(count: int) -> Core:
    core = Core()
    core.create("t")
    for number in range(count):
        core.do(publish("t", str(number)))
    return core


def test_bounds_are_exclusive_and_inclusive() -> None:
    core = filled(5)
    ids = core.page("t").ids
    assert core.read("t", after=ids[0], upto=ids[2]) == ["1", "2"]
    assert core.read("t", after=ids[2], upto=ids[2]) == []
    assert core.read("t", after=ids[3], upto=ids[1]) == []


@settings(max_examples=30, deadline=None)
@given(limit=st.integers(1, 8), bytes_max=st.integers(1, 8))
def test_pages_of_any_size_make_the_whole(limit: int, bytes_max: int) -> None:
    core = filled(20)
    seen: list[bytes] = []
    position = FIRST
    while (page := core.page("t", after=position, limit=limit, bytes_max=bytes_max)).ids:
        assert len(page.ids) <= limit
        seen += page.ids
        position = page.next_position
    assert seen == core.page("t").ids
    assert page.complete


@pytest.mark.slow
def test_work_is_bounded_even_when_nothing_is_shown(core: Core) -> None:
    """A page over many rows that no reader may see ends early, empty, with a next position further on."""
    messages = [LoggedMessage(b"x", 1)] * (reader.JUDGED_ROWS_MAX + 10)
    core.do(Publish(namespace="n", name="t", messages=messages))
    core.do(publish("t", "end"))
    core.now_ms += 1500
    page = core.page("t")
    assert (page.ids, page.complete) == ([], False)
    assert core.read("t", after=page.next_position) == ["end"]
