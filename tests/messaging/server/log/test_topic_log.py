"""What the writer remembers can be read again."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.topics.messaging_core import Core, publish

from fairlead_messaging.api.message_id import SEQUENCE_MAX, Position, PositionBytes
from fairlead_messaging.server.log import keys
from fairlead_messaging.server.log.running_totals import MARK_BYTES
from fairlead_messaging.server.log.topic_log import Sequencer, TopicLog
from fairlead_messaging.server.store.ordered_kv import Batch


def test_positions_and_totals_are_recovered() -> None:
    """From what each batch wrote, also when cleanup took the rows."""
    core = Core()
    topic = core.create("t")
    published = core.do(publish("t", "a", "bc"))
    prefix = keys.table(keys.MESSAGE, topic)
    batch = Batch()
    batch.delete_range(prefix, keys.above(prefix))
    core.kv.apply(batch)
    log = TopicLog(core.kv, topic)
    assert log.sequencer.last == published.last
    assert log.total == (2, 3)


def test_newer_rows_win_over_what_was_written_beside_them() -> None:
    """A store restored from elsewhere never makes positions fall back."""
    core = Core()
    topic = core.create("t")
    published = core.do(publish("t", "a"))
    batch = Batch()
    batch.delete(keys.log_end(topic))
    core.kv.apply(batch)
    assert TopicLog(core.kv, topic).sequencer.last == published.last


@given(st.lists(st.one_of(st.integers(0, 50), st.integers(0, 2 * MARK_BYTES)), max_size=3000).map(lambda s: s * 3))
def test_rows_counted_together_leave_the_marks_of_rows_counted_singly(sizes: list[int]) -> None:
    """Counting of ranges stands on where marks are."""
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
    """Strictly increasing over clock steps and over restarts from the last position."""
    sequencer, last = Sequencer(None), Position(0, 0)
    for clock, restart in steps:
        if restart:
            sequencer = Sequencer(sequencer.last)
        position = sequencer.next(clock)
        assert position > last or (position == last == Position(0, 0))
        assert position.timestamp >= clock
        last = position


def test_overflow_goes_on_in_the_next_millisecond() -> None:
    """The 65537th message of a millisecond."""
    sequencer = Sequencer(Position(5, SEQUENCE_MAX))
    assert sequencer.next(5) == Position(6, 0)
    assert sequencer.next(5) == Position(6, 1)
    assert sequencer.next(7) == Position(7, 0)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 70_000)), max_size=2))
def test_many_positions_at_once_are_those_one_after_another(steps: list[tuple[int, int]]) -> None:
    """Also over the last sequence of a millisecond."""
    many, single = Sequencer(Position(5, SEQUENCE_MAX - 3)), Sequencer(Position(5, SEQUENCE_MAX - 3))
    for clock, count in steps:
        taken = many.take(count, clock)
        assert taken == [single.next(clock).encode() for _ in range(count)]
        assert many.last == single.last
