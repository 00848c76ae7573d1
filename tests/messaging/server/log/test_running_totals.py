"""Running totals against counting one by one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.topics.messaging_core import NAMESPACE, Core, publish

from fairlead_messaging.api.message_id import FIRST, LAST, Position, position_of
from fairlead_messaging.server import retention
from fairlead_messaging.server.commands import Publish
from fairlead_messaging.server.log import running_totals
from fairlead_messaging.server.log.rows import LoggedMessage
from fairlead_messaging.server.log.running_totals import LogEnd, RunningTotal
from fairlead_messaging.server.transactions.commands import Commit, Start, Store


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 900), min_size=1, max_size=6), st.data())
def test_a_total_is_what_was_stored_up_to_there(batches: list[int], data: st.DataObject) -> None:
    """At any position, also between marks and after a restart."""
    core = Core()
    core.create("t")
    for count in batches:
        core.do(publish("t", *["abc"] * count))
        core.now_ms += 1
        core.restart()
    ids = core.page("t", limit=10**6).ids
    index = data.draw(st.integers(0, len(ids) - 1))
    with core.kv.snapshot() as snapshot:
        topic = core.topic("t")
        assert running_totals.upto(snapshot, topic, position_of(ids[index])) == (index + 1, 3 * (index + 1))
        assert running_totals.upto(snapshot, topic, position_of(FIRST)) == (0, 0)
        assert (
            running_totals.upto(snapshot, topic, position_of(LAST))
            == running_totals.everything(snapshot, topic)
            == (len(ids), 3 * len(ids))
        )


def test_a_reference_weighs_its_payloads() -> None:
    """Stored messages count where they are published."""
    core = Core()
    core.create("t")
    pointer = core.do(Start(timeout_seconds=5)).transaction.pointer
    core.do(
        Store(namespace=NAMESPACE, name="t", messages=[LoggedMessage(b"12"), LoggedMessage(b"345")], pointer=pointer)
    )
    core.do(publish("t", pointer=pointer))
    core.do(Commit(pointer=pointer, changes=[]))
    with core.kv.snapshot() as snapshot:
        topic = core.topic("t")
        assert (
            running_totals.everything(snapshot, topic)
            == running_totals.upto(snapshot, topic, position_of(LAST))
            == (2, 5)
        )


def test_encodings() -> None:
    """To disk and back."""
    high = LogEnd(Position(5, 6), 7, RunningTotal(8, 9))
    assert running_totals.decode_log_end(high.encode()) == high
    assert running_totals.decode(RunningTotal(1, 2).encode()) == (1, 2)


def test_differences_are_never_negative() -> None:
    """Removed rows may make a later count smaller than an earlier one."""
    assert RunningTotal(1, 1).minus(RunningTotal(2, 2)) == (0, 0)


def test_what_was_ever_held_is_known_at_the_end_whatever_was_removed() -> None:
    """Messages with a short life of their own leave no row behind; before the end the number is never too high."""
    core = Core()
    core.create("t")
    core.do(publish("t", "kept"))
    core.do(Publish(namespace=NAMESPACE, name="t", messages=[LoggedMessage(b"gone", ttl_seconds=1)] * 50))
    ids = core.page("t", limit=100).ids
    core.now_ms += 10_000
    with core.kv.snapshot() as snapshot:
        topic = core.topic("t")
        core.kv.apply(retention.sweep(snapshot, topic, core.now_ms).batch)
    with core.kv.snapshot() as snapshot:
        assert running_totals.upto(snapshot, topic, position_of(LAST)).rows == 1
        assert running_totals.passed(snapshot, topic, LAST) == running_totals.passed(snapshot, topic, ids[-1]) == 51
        assert running_totals.passed(snapshot, topic, ids[20]) <= 21
        assert running_totals.passed(snapshot, topic, FIRST) == 0
