"""Positions only grow."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead_messaging.api.message_id import SEQUENCE_MAX, Position
from fairlead_messaging.server.log.topic_log import Sequencer


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
