"""What the pump may send: by windows, by the day's budget, by the rate."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from zoneinfo import ZoneInfo

import pytest

from fairlead_edge.outbox.plan import gate
from fairlead_edge.outbox.plan.gate import (
    BATCH_SECONDS,
    BURST_SECONDS,
    DAY_SECONDS_MAX,
    OPEN,
    POLL_SECONDS,
    DayCount,
    HeldUntil,
    PlanGate,
    Rate,
    Why,
)
from fairlead_edge.outbox.plan.windows import HourWindow

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()
NIGHTS = HourWindow(begins=22 * 60, ends=6 * 60, zone=UTC)
REST = 2_000_000_000


def test_nothing_is_held_without_limits() -> None:
    assert OPEN.held(9, 1 << 40, 0.0) is None and OPEN.room(9, 0, 0.0) is None
    gate = PlanGate()
    gate.update(now=0.0, wall=NOON, carried=1 << 40)
    assert gate.held(9, 0, 0.0) is None and gate.room(9, 0, 0.0) is None and not gate.is_used_up


def test_a_priority_with_windows_waits_for_its_hours_and_others_do_not() -> None:
    gate = PlanGate(windows={9: [NIGHTS]})
    gate.update(now=5.0, wall=NOON, carried=0)
    assert gate.held(9, 0, 5.0) == HeldUntil(Why.WINDOW, 5.0 + POLL_SECONDS)  # the clock may be set meanwhile
    assert gate.held(0, 0, 5.0) is None and gate.held(REST, 0, 5.0) is None
    assert gate.opens() == {9: NOON + 10 * 3600}
    gate.update(now=6.0, wall=NOON + 10 * 3600 - 20, carried=0)
    assert gate.held(9, 0, 6.0) == HeldUntil(Why.WINDOW, 26.0)
    gate.update(now=26.0, wall=NOON + 10 * 3600, carried=0)
    assert gate.held(9, 0, 26.0) is None


def test_at_nine_tenths_of_the_day_messages_wait_and_the_most_urgent_go_on() -> None:
    gate = PlanGate(bytes_per_day=1000)
    gate.update(now=0.0, wall=NOON, carried=899)
    assert gate.held(5, 0, 0.0) is None and gate.room(5, 0, 0.0) == 1 and not gate.is_used_up
    gate.update(now=1.0, wall=NOON, carried=900)
    held = gate.held(5, 0, 1.0)
    assert held is not None and held.why is Why.DAY and gate.is_used_up
    assert gate.held(0, 0, 1.0) is None and gate.room(0, 0, 1.0) == 100
    gate.update(now=2.0, wall=NOON, carried=1000)
    assert gate.held(0, 0, 2.0) is not None


def test_what_is_in_flight_counts_before_the_kernel_has_counted_it() -> None:
    gate = PlanGate(bytes_per_day=1000)
    gate.update(now=0.0, wall=NOON, carried=400)
    assert gate.room(5, 300, 0.0) == 200
    assert gate.held(5, 500, 0.0) is not None and not gate.is_used_up
    assert gate.held(5, 499, 0.0) is None


def test_the_next_day_it_goes_on_by_itself() -> None:
    gate = PlanGate(bytes_per_day=1000)
    gate.update(now=0.0, wall=NOON, carried=5000)
    assert gate.held(5, 0, 0.0) is not None and gate.day_ends == 12 * 3600
    gate.update(now=12 * 3600.0, wall=NOON + 12 * 3600, carried=5010)
    assert gate.held(5, 0, 12 * 3600.0) is None and not gate.is_used_up
    assert gate.count == DayCount("2026-11-24", 12 * 3600.0, 10)


def test_a_count_that_was_kept_goes_on() -> None:
    gate = PlanGate(bytes_per_day=1000, count=DayCount("2026-11-23", 0.0, 890))
    gate.update(now=10.0, wall=NOON, carried=20)
    assert gate.is_used_up and gate.count == DayCount("2026-11-23", 0.0, 910)


def test_the_rate_holds_everything_for_as_long_as_it_takes() -> None:
    gate = PlanGate(bytes_per_second=100)
    gate.update(now=0.0, wall=NOON, carried=0)
    assert gate.room(5, 0, 0.0) == 100
    gate.sent(300, 0.0)
    held = gate.held(0, 0, 0.0)
    assert held is not None and held.why is Why.RATE and 2 <= held.until < 2.3
    assert gate.held(0, 0, held.until) is None


# ---- so many bytes a second, over any pauses -------------------------------------------------------------------------


def test_overdrawn_by_a_batch_it_waits_until_that_is_paid() -> None:
    rate = Rate(1000)
    assert rate.due(0.0) == 0.0 and rate.room(0.0) == 1000
    rate.sent(3000, 0.0)
    due = rate.due(0.0)
    assert due == pytest.approx(2.0 + BATCH_SECONDS) and rate.room(1.0) == 0
    assert rate.due(due) == due


@pytest.mark.parametrize("bytes_per_second", [1, 3, 100, 1_000_000])
def test_what_leaves_after_a_wait_is_worth_a_batch(bytes_per_second: int) -> None:
    """A single byte of room would send each small message alone, with its own headers and badly compressed."""
    rate = Rate(bytes_per_second)
    rate.sent(5 * bytes_per_second, 0.0)
    due = rate.due(0.0)
    assert rate.due(due) == due and rate.room(due) >= int(bytes_per_second * BATCH_SECONDS)
    assert due <= 5.0 + max(0.0, 1 / bytes_per_second)


def test_over_any_time_no_more_leaves_than_the_rate_a_burst_and_a_batch() -> None:
    for seed in range(20):
        dice, rate, now, left, began, largest = Random(seed), Rate(5000), 0.0, 0, 0.0, 0
        while now < 300:
            now = max(now + dice.expovariate(2), rate.due(now)) if dice.random() < 0.3 else rate.due(now)
            size = min(dice.randrange(1, 9000), max(rate.room(now), dice.randrange(1, 3000)))
            largest = max(largest, size)
            rate.sent(size, now)
            left += size
            assert left <= 5000 * (now - began + BURST_SECONDS) + largest
        assert rate.due(now) - now <= largest / 5000 + BATCH_SECONDS + 0.001


# ---- the day of the budget: zones, jumps of the clock, another store -------------------------------------------------


BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3600.0


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_a_day_begins_at_midnight_of_its_place() -> None:
    evening = at("2026-11-23T23:30+01:00")
    count = gate.on(None, now=100.0, wall=evening, zone=BERLIN).plus(500)
    assert count == DayCount("2026-11-23", 100.0, 500)
    assert gate.ends(count, now=100.0, wall=evening, zone=BERLIN) == 100.0 + HOUR / 2
    assert gate.on(count, now=100.0 + HOUR / 4, wall=evening + HOUR / 4, zone=BERLIN) is count
    assert gate.on(count, now=2000.0, wall=evening + HOUR / 2, zone=BERLIN) == DayCount("2026-11-24", 2000.0, 0)
    assert gate.on(count, now=2000.0, wall=evening + HOUR / 2, zone=UTC) is count


def test_days_of_23_and_25_hours_end_at_midnight() -> None:
    for date, hours in (("2026-03-29", 23), ("2026-10-25", 25)):
        begins = datetime.fromisoformat(date).replace(tzinfo=BERLIN).timestamp()
        count = gate.on(None, now=0.0, wall=begins, zone=BERLIN)
        assert gate.ends(count, now=0.0, wall=begins, zone=BERLIN) == hours * HOUR
        last = hours * HOUR - 1
        assert gate.on(count, now=last, wall=begins + last, zone=BERLIN) is count
        assert gate.on(count, now=last + 1, wall=begins + last + 1, zone=BERLIN).date > date


def test_a_clock_that_is_put_back_gives_no_new_budget_and_none_when_it_is_right_again() -> None:
    """A device without a battery-backed clock starts in 1970 and gets the time from the network."""
    today = at("2026-11-23T12:00+00:00")
    count = DayCount("2026-11-23", 0.0, 900)
    for wall in (0.0, today - 3 * 24 * HOUR, today):
        assert gate.on(count, now=10.0, wall=wall, zone=UTC) is count


def test_a_clock_that_was_years_ahead_does_not_close_the_budget_for_years() -> None:
    today = at("2026-11-23T12:00+00:00")
    count = gate.on(DayCount("2026-11-23", 0.0, 900), now=10.0, wall=at("2040-01-01T00:00+00:00"), zone=UTC)
    assert count.used == 0
    count = count.plus(900)
    for back_and_forth in (today, at("2040-01-01T01:00+00:00"), today):
        assert gate.on(count, now=20.0, wall=back_and_forth, zone=UTC) is count
    assert gate.ends(count, now=20.0, wall=today, zone=UTC) == 10.0 + DAY_SECONDS_MAX
    later = 10.0 + DAY_SECONDS_MAX
    assert gate.on(count, now=later, wall=today + DAY_SECONDS_MAX, zone=UTC) == DayCount("2026-11-24", later, 0)


def test_another_store_with_a_clock_of_its_own_keeps_the_count() -> None:
    wall = at("2026-11-23T12:00+00:00")
    assert gate.on(DayCount("2026-11-23", 5000.0, 900), now=3.0, wall=wall, zone=UTC) == DayCount(
        "2026-11-23", 3.0, 900
    )
