"""What the pump may send: by windows, by the day's budget, by the rate."""

from __future__ import annotations

from datetime import UTC, datetime

from fairlead_edge.outbox.plan.gate import LOOK_SECONDS, OPEN, DayCount, HeldUntil, PlanGate, Why
from fairlead_edge.outbox.plan.windows import HourWindow

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()
NIGHTS = HourWindow(begins=22 * 60, ends=6 * 60, zone=UTC)
REST = 2_000_000_000


def test_nothing_is_held_without_limits() -> None:
    assert OPEN.held(9, 1 << 40, 0.0) is None and OPEN.room(9, 0, 0.0) is None
    gate = PlanGate()
    gate.look(now=0.0, wall=NOON, carried=1 << 40)
    assert gate.held(9, 0, 0.0) is None and gate.room(9, 0, 0.0) is None and not gate.is_used_up


def test_a_priority_with_windows_waits_for_its_hours_and_others_do_not() -> None:
    gate = PlanGate(windows={9: [NIGHTS]})
    gate.look(now=5.0, wall=NOON, carried=0)
    assert gate.held(9, 0, 5.0) == HeldUntil(Why.WINDOW, 5.0 + LOOK_SECONDS)  # the clock may be set meanwhile
    assert gate.held(0, 0, 5.0) is None and gate.held(REST, 0, 5.0) is None
    gate.look(now=6.0, wall=NOON + 10 * 3600 - 20, carried=0)
    assert gate.held(9, 0, 6.0) == HeldUntil(Why.WINDOW, 26.0)
    gate.look(now=26.0, wall=NOON + 10 * 3600, carried=0)
    assert gate.held(9, 0, 26.0) is None


def test_at_nine_tenths_of_the_day_messages_wait_and_the_most_urgent_go_on() -> None:
    gate = PlanGate(bytes_per_day=1000)
    gate.look(now=0.0, wall=NOON, carried=899)
    assert gate.held(5, 0, 0.0) is None and gate.room(5, 0, 0.0) == 1 and not gate.is_used_up
    gate.look(now=1.0, wall=NOON, carried=900)
    held = gate.held(5, 0, 1.0)
    assert held is not None and held.why is Why.DAY and gate.is_used_up
    assert gate.held(0, 0, 1.0) is None and gate.room(0, 0, 1.0) == 100
    gate.look(now=2.0, wall=NOON, carried=1000)
    assert gate.held(0, 0, 2.0) is not None


def test_what_is_in_flight_counts_before_the_kernel_has_counted_it() -> None:
    gate = PlanGate(bytes_per_day=1000)
    gate.look(now=0.0, wall=NOON, carried=400)
    assert gate.room(5, 300, 0.0) == 200
    assert gate.held(5, 500, 0.0) is not None and not gate.is_used_up
    assert gate.held(5, 499, 0.0) is None


def test_the_next_day_it_goes_on_by_itself() -> None:
    gate = PlanGate(bytes_per_day=1000)
    gate.look(now=0.0, wall=NOON, carried=5000)
    assert gate.held(5, 0, 0.0) is not None and gate.day_ends == 12 * 3600
    gate.look(now=12 * 3600.0, wall=NOON + 12 * 3600, carried=5010)
    assert gate.held(5, 0, 12 * 3600.0) is None and not gate.is_used_up
    assert gate.count == DayCount("2026-11-24", 12 * 3600.0, 10)


def test_a_count_that_was_kept_goes_on() -> None:
    gate = PlanGate(bytes_per_day=1000, count=DayCount("2026-11-23", 0.0, 890))
    gate.look(now=10.0, wall=NOON, carried=20)
    assert gate.is_used_up and gate.count == DayCount("2026-11-23", 0.0, 910)


def test_the_rate_holds_everything_for_as_long_as_it_takes() -> None:
    gate = PlanGate(bytes_per_second=100)
    gate.look(now=0.0, wall=NOON, carried=0)
    assert gate.room(5, 0, 0.0) == 100
    gate.left(300, 0.0)
    held = gate.held(0, 0, 0.0)
    assert held is not None and held.why is Why.RATE and 2 <= held.until < 2.3
    assert gate.held(0, 0, held.until) is None
