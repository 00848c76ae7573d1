"""Plans, stable positions and expired starts, from rows alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.topics.messaging_core import Core, publish

from fairlead_messaging.api.message_id import FIRST, LAST, MessageId
from fairlead_messaging.server.log import bulk
from fairlead_messaging.server.transactions import visibility
from fairlead_messaging.server.transactions.transaction import TransactionView


def stable(core: Core, name: str) -> MessageId:
    with core.kv.snapshot() as snapshot:
        topic = core.topic(name)
        return bulk.last_stable(
            snapshot,
            topic,
            visibility.first_uncommitted(snapshot, TransactionView(snapshot), topic, now_ms=core.now_ms),
        )


def plan(
    core: Core, name: str, *, after: MessageId = FIRST, rows: int = 10**9, size: int = 10**9, splits: int = 1
) -> bulk.BulkPlan:
    with core.kv.snapshot() as snapshot:
        return bulk.plan(
            snapshot, core.topic(name), after=after, upto=stable(core, name), limit_rows=rows, limit_bytes=size,
            splits=splits, now_ms=core.now_ms,
        )  # fmt: skip


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    batches=st.lists(st.integers(1, 1500), min_size=1, max_size=6),
    rows=st.integers(1, 5000),
    splits=st.integers(1, 7),
)
def test_ranges_cover_the_topic_without_gap_or_overlap(batches: list[int], rows: int, splits: int) -> None:
    core = Core()
    core.create("t")
    expected: list[str] = []
    for number, count in enumerate(batches):
        names = [f"{number}.{index}" for index in range(count)]
        core.do(publish("t", *names))
        expected += names
        core.now_ms += number % 2
    seen: list[str] = []
    after = FIRST
    while found := plan(core, "t", after=after, rows=rows, splits=splits).ranges:
        assert len(found) <= splits
        assert sum(each.rows for each in found) <= rows
        for each in found:
            assert each.after == after
            read = core.read("t", after=each.after, upto=each.upto, limit=10**6)
            assert len(read) == each.rows
            seen += read
            after = each.upto
    assert seen == expected
    assert after == stable(core, "t")


def test_ranges_are_about_the_same_weight(core: Core) -> None:
    for _ in range(20):
        core.do(publish("t", *["x" * 100] * 500))
    ranges = plan(core, "t", splits=4).ranges
    assert [each.rows for each in ranges] == [2500] * 4


def test_byte_limits(core: Core) -> None:
    core.do(publish("t", "x" * 1000, "y" * 10, "z" * 10))
    assert plan(core, "t", size=100).rows == 1
    assert plan(core, "t", size=1015).rows == 2


def test_nothing_to_read(core: Core) -> None:
    assert plan(core, "t") == bulk.BulkPlan(upto=FIRST, rows=0, size=0, ranges=())
    core.do(publish("t", "a"))
    end = plan(core, "t").upto
    assert plan(core, "t", after=end) == bulk.BulkPlan(upto=end, rows=0, size=0, ranges=())


def test_a_reference_larger_than_a_plan_is_read_and_passed(core: Core) -> None:
    pointer = core.start(600)
    core.store(pointer, *["x"] * 5)
    core.do(publish("t", pointer=pointer))
    core.do(publish("t", "z"))
    core.commit(pointer)
    ids = core.page("t").ids
    first = plan(core, "t", rows=2)
    assert (first.rows, first.upto) == (5, ids[0][:10] + LAST[10:])
    assert plan(core, "t", after=first.upto, rows=2).rows == 1
    assert plan(core, "t", after=ids[2], rows=2).rows == 2
    assert plan(core, "t", after=ids[4], rows=2).rows == 1
