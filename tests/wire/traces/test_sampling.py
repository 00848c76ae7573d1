"""Who decides what is recorded: the one who began the trace, below our own ceiling."""

from __future__ import annotations

from tests.support.spans import place

from fairlead_wire.traces.sampling import Sampler


def sampler(*, ratio: float = 0.0, ceiling: float = 10.0, drawn: float = 0.5) -> Sampler:
    return Sampler(ratio=ratio, ceiling_per_second=ceiling, uniform=lambda: drawn)


def test_what_comes_with_nothing_is_recorded_by_ratio() -> None:
    assert not sampler().begins(None, 0.0)
    assert sampler(ratio=0.6).begins(None, 0.0)
    assert not sampler(ratio=0.5).begins(None, 0.0)
    assert sampler(ratio=1.0, drawn=0.9999).begins(None, 0.0)


def test_who_began_the_trace_decides() -> None:
    assert sampler().begins(place(1), 0.0)
    assert not sampler(ratio=1.0).begins(place(1, sampled=False), 0.0)


def test_no_client_gets_more_than_the_ceiling() -> None:
    """And what was refused is counted."""
    one = sampler(ceiling=3.0)
    assert [one.begins(place(1), 0.0) for _ in range(5)] == [True] * 3 + [False] * 2
    assert one.over_ceiling == 2
    assert one.begins(place(1), 0.4), "a third of a second later there is one more"
    assert not one.begins(place(1), 0.4)
    assert [one.begins(place(1), 100.0) for _ in range(4)] == [True] * 3 + [False], "a long pause saves up no more"


def test_what_arrives_takes_nothing_from_what_goes_on() -> None:
    one = sampler(ceiling=1.0)
    assert one.begins(place(1), 0.0) and one.goes_on(0.0)
    assert not one.begins(place(1), 0.0) and not one.goes_on(0.0)


def test_a_ceiling_of_zero_records_nothing_and_one_below_one_a_second_records_some() -> None:
    assert not sampler(ratio=1.0, ceiling=0.0).begins(None, 0.0)
    slow = sampler(ceiling=0.1)
    assert [slow.begins(place(1), now) for now in (0.0, 5.0, 10.1)] == [True, False, True]


def test_a_clock_that_steps_back_gives_nothing() -> None:
    one = sampler(ceiling=1.0)
    assert one.begins(place(1), 10.0)
    assert not one.begins(place(1), 5.0)
    assert one.begins(place(1), 6.0)
