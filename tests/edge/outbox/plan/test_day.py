"""The day of the budget: zones, jumps of the clock, another store."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from fairlead_edge.outbox.plan import gate
from fairlead_edge.outbox.plan.gate import DAY_SECONDS_MAX, DayCount

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
    """A device without a battery starts in 1970, and learns the time from the network."""
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
