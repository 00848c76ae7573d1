"""What the writer remembers can be read again."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.topics.messaging_core import NAMESPACE, Core, publish

from fairlead_messaging.api.message_id import FIRST, LAST, SEQUENCE_MAX, Position, PositionBytes, position_of
from fairlead_messaging.server import retention
from fairlead_messaging.server.commands import Publish
from fairlead_messaging.server.log import keys, running_totals
from fairlead_messaging.server.log.rows import LoggedMessage
from fairlead_messaging.server.log.running_totals import MARK_BYTES, LogEnd, RunningTotal
from fairlead_messaging.server.log.topic_log import Sequencer, TopicLog
from fairlead_messaging.server.store.ordered_kv import Batch


def test_positions_and_totals_are_recovered(core: Core) -> None:
    topic = core.topic("t")
    published = core.do(publish("t", "a", "bc"))
    prefix = keys.table(keys.MESSAGE, topic)
    batch = Batch()
    batch.delete_range(prefix, keys.above(prefix))
    core.kv.apply(batch)
    log = TopicLog(core.kv, topic)
    assert log.sequencer.last == published.last
    assert log.total == (2, 3)


def test_newer_rows_win_over_what_was_written_beside_them(core: Core) -> None:
    """A store restored from elsewhere never makes positions fall back."""
    topic = core.topic("t")
    published = core.do(publish("t", "a"))
    batch = Batch()
    batch.delete(keys.log_end(topic))
    core.kv.apply(batch)
    assert TopicLog(core.kv, topic).sequencer.last == published.last


@given(st.lists(st.one_of(st.integers(0, 50), st.integers(0, 2 * MARK_BYTES)), max_size=3000).map(lambda s: s * 3))
def test_rows_counted_together_leave_the_marks_of_rows_counted_singly(sizes: list[int]) -> None:
    positions = [PositionBytes(number.to_bytes(10, "big")) for number in range(len(sizes))]
    together, singly = Core(), Core()
    topic = together.create("t"), singly.create("t")
    logs = TopicLog(together.kv, topic[0]), TopicLog(singly.kv, topic[1])
    batches = Batch(), Batch()
    logs[0].count_all(positions, sizes, batches[0])
    for position, size in zip(positions, sizes, strict=True):
        logs[1].count(position, 1, size, batches[1])
    assert logs[0].total == logs[1].total
    assert batches[0].operations == batches[1].operations


# --- Positions only grow.


@given(st.lists(st.tuples(st.integers(0, 100), st.booleans())))
def test_whatever_the_clock_and_restarts_do(steps: list[tuple[int, bool]]) -> None:
    sequencer, last = Sequencer(None), Position(0, 0)
    for clock, restart in steps:
        if restart:
            sequencer = Sequencer(sequencer.last)
        position = sequencer.next(clock)
        assert position > last or (position == last == Position(0, 0))
        assert position.timestamp >= clock
        last = position


def test_overflow_goes_on_in_the_next_millisecond() -> None:
    sequencer = Sequencer(Position(5, SEQUENCE_MAX))
    assert sequencer.next(5) == Position(6, 0)
    assert sequencer.next(5) == Position(6, 1)
    assert sequencer.next(7) == Position(7, 0)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 70_000)), max_size=2))
def test_many_positions_at_once_are_those_one_after_another(steps: list[tuple[int, int]]) -> None:
    many, single = Sequencer(Position(5, SEQUENCE_MAX - 3)), Sequencer(Position(5, SEQUENCE_MAX - 3))
    for clock, count in steps:
        taken = many.take(count, clock)
        assert taken == [single.next(clock).encode() for _ in range(count)]
        assert many.last == single.last


# --- Running totals against counting one by one.


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 900), min_size=1, max_size=6), st.data())
def test_a_total_is_what_was_stored_up_to_there(batches: list[int], data: st.DataObject) -> None:
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


def test_a_reference_weighs_its_payloads(core: Core) -> None:
    pointer = core.start(5)
    core.store(pointer, "12", "345")
    core.do(publish("t", pointer=pointer))
    core.commit(pointer)
    with core.kv.snapshot() as snapshot:
        topic = core.topic("t")
        assert (
            running_totals.everything(snapshot, topic)
            == running_totals.upto(snapshot, topic, position_of(LAST))
            == (2, 5)
        )


def test_encodings() -> None:
    high = LogEnd(Position(5, 6), 7, RunningTotal(8, 9))
    assert running_totals.decode_log_end(high.encode()) == high
    assert running_totals.decode(RunningTotal(1, 2).encode()) == (1, 2)


def test_differences_are_never_negative() -> None:
    """Removed rows may make a later count smaller than an earlier one."""
    assert RunningTotal(1, 1).minus(RunningTotal(2, 2)) == (0, 0)


def test_what_was_ever_held_is_known_at_the_end_whatever_was_removed(core: Core) -> None:
    """Messages with a short life of their own leave no row behind; before the end the number is never too high."""
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
