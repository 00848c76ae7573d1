"""Windows against a clock that is read minute by minute: zones, summer time, midnight, days of the week."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from fairlead_edge.outbox.plan import windows
from fairlead_edge.outbox.plan.windows import Hours, HourWindow, WindowSettings
from fairlead_edge.settings import EdgeSettings
from fairlead_wire.validation.reader import STRUCTS

BERLIN = ZoneInfo("Europe/Berlin")
DAY = 86_400.0


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def window(begins: str, ends: str, zone: ZoneInfo = BERLIN, days: str = "0123456") -> HourWindow:
    hours = [each.split(":") for each in (begins, ends)]
    begin, end = (int(hour) * 60 + int(minute) for hour, minute in hours)
    return HourWindow(begins=begin, ends=end, zone=zone, days=frozenset(map(int, days)))


def test_opens_at_its_minute_and_is_closed_at_its_end() -> None:
    day = window("08:00", "17:30")
    assert not day.is_open(at("2026-11-23T07:59:59+01:00")) and day.is_open(at("2026-11-23T08:00:00+01:00"))
    assert day.is_open(at("2026-11-23T17:29:59+01:00")) and not day.is_open(at("2026-11-23T17:30:00+01:00"))
    assert windows.next_change([day], at("2026-11-23T12:00:00+01:00")) == at("2026-11-23T17:30:00+01:00")
    assert windows.next_change([day], at("2026-11-23T18:00:00+01:00")) == at("2026-11-24T08:00:00+01:00")


def test_over_midnight_it_belongs_to_the_day_on_which_it_opens() -> None:
    """2026-11-20 is a Friday."""
    friday = window("22:00", "06:00", days="4")
    assert friday.is_open(at("2026-11-20T23:00+01:00")) and friday.is_open(at("2026-11-21T05:59+01:00"))
    assert not friday.is_open(at("2026-11-20T05:00+01:00")) and not friday.is_open(at("2026-11-21T23:00+01:00"))


def test_the_hour_that_is_shown_twice_is_open_twice() -> None:
    """2026-10-25: 3:00 becomes 2:00."""
    night = window("02:00", "03:00")
    first, second = at("2026-10-25T02:30+02:00"), at("2026-10-25T02:30+01:00")
    assert second - first == 3600 and night.is_open(first) and night.is_open(second)
    assert windows.next_change([night], first) == at("2026-10-25T03:00+01:00")


def test_a_window_in_the_hour_that_is_left_out_does_not_open_that_day() -> None:
    """2026-03-29: 2:00 becomes 3:00."""
    night = window("02:15", "02:45")
    assert windows.next_change([night], at("2026-03-28T12:00+01:00")) == at("2026-03-30T02:15+02:00")
    sundays = window("02:15", "02:45", days="6")
    assert windows.next_change([sundays], at("2026-03-28T12:00+01:00")) == at("2026-04-05T02:15+02:00")


def test_a_window_that_begins_in_the_hour_left_out_opens_when_the_clock_is_changed() -> None:
    night = window("02:30", "05:00")
    assert windows.next_change([night], at("2026-03-29T01:00+01:00")) == at("2026-03-29T03:00+02:00")


def test_windows_add_up() -> None:
    both = [window("08:00", "12:00"), window("11:00", "14:00"), window("00:00", "01:00", ZoneInfo("Asia/Tokyo"))]
    assert windows.next_change(both, at("2026-11-23T09:00+01:00")) == at("2026-11-23T14:00+01:00")
    assert windows.is_open(both, at("2026-11-23T16:30+01:00"))  # half past midnight in Tokyo


def test_two_that_cover_the_day_never_close_and_are_looked_at_again() -> None:
    always = [window("00:00", "12:00"), window("12:00", "24:00")]
    now = at("2026-11-23T09:00+01:00")
    assert windows.next_change(always, now) == now + windows.LOOK_AHEAD.total_seconds()


ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Casablanca")
"""Among them one that is changed by half an hour, one off by half an hour, one that is changed for Ramadan."""


@pytest.mark.parametrize("name", ZONES)
def test_openness_and_its_next_change_are_those_of_a_clock_read_step_by_step(name: str) -> None:
    """A year in steps of fifteen minutes, which no zone's changes are finer than."""
    zone, dice = ZoneInfo(name), Random(name)
    step = 15 * 60
    begin = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    clocks = [datetime.fromtimestamp(begin + n * step, zone) for n in range(380 * 96)]
    shown = [(each.weekday() * 96 + (each.hour * 60 + each.minute) // 15) for each in clocks]
    changed = [n for n in range(96, len(clocks), 96) if clocks[n].utcoffset() != clocks[n - 96].utcoffset()]
    horizon = int(windows.LOOK_AHEAD.total_seconds()) // step
    for _ in range(4):
        days = frozenset(dice.sample(range(7), dice.randrange(1, 8)))
        drawn = [
            HourWindow(begins=one * 15, ends=other * 15, zone=zone, days=days)
            for one, other in (dice.sample(range(96), 2) for _ in range(dice.randrange(1, 3)))
        ]
        week = [any(_shows(each, number) for each in drawn) for number in range(7 * 96)]
        near = [n - dice.randrange(110) for n in changed]
        for n in [*near, *(dice.randrange(len(shown) - horizon) for _ in range(4))]:
            is_open, following = week[shown[n]], n + 1
            while following < n + horizon and week[shown[following]] == is_open:
                following += 1
            instant = float(begin + n * step)
            assert windows.is_open(drawn, instant) == is_open, (drawn, clocks[n])
            assert windows.next_change(drawn, instant) == begin + following * step, (drawn, clocks[n])


def _shows(each: HourWindow, quarter: int) -> bool:
    """By the words of the reference, another way than the code's: the time since the window opened.  ``quarter``: of an
    hour, since Monday."""
    length = (each.ends - each.begins) % windows.MINUTES
    since = [(quarter * 15 - day * windows.MINUTES - each.begins) % (7 * windows.MINUTES) for day in each.days]
    return min(since) < length


def test_hours_answer_by_priority_and_follow_a_clock_that_is_put_back() -> None:
    hours = Hours({9: [window("22:00", "06:00")]})
    noon, night = at("2026-11-23T12:00+01:00"), at("2026-11-23T23:00+01:00")
    assert hours.closed_until(0, noon) is None
    assert hours.closed_until(9, noon) == at("2026-11-23T22:00+01:00")
    assert hours.closed_until(9, night) is None
    assert hours.closed_until(9, noon) == at("2026-11-23T22:00+01:00")


# ---- what ``[[windows]]`` and ``[link]`` may say, and that every mistake is named at once ----------------------------


AGENT: dict[str, Any] = {"node": "n", "hub_url": "ws://127.0.0.1:1", "data_dir": "/d", "security": "insecure"}
NIGHT: dict[str, Any] = {"priorities": [9], "from": "22:00", "to": "06:00", "timezone": "Europe/Berlin"}


def mistakes(**document: Any) -> list[str]:
    return [f"{each.key}: {each.reason}" for each in STRUCTS.find({**AGENT, **document}, EdgeSettings)]


def test_windows_are_read_with_their_four_keys_and_days() -> None:
    found = msgspec.convert(
        {**AGENT, "windows": [NIGHT, {**NIGHT, "days": ["sat", "sun"], "to": "24:00"}]}, EdgeSettings
    )
    first, second = windows.windows_by_priority(found.windows)[9]
    assert (first.begins, first.ends, len(first.days)) == (1320, 360, 7) and str(first.zone) == "Europe/Berlin"
    assert second.ends == 1440 and second.days == frozenset({5, 6})
    assert WindowSettings(priorities=[1], begins="01:00", to="02:00").timezone == "UTC"


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"from": "25:00"}, "windows[0].from"),
        ({"from": "24:00"}, "windows[0].from"),
        ({"from": "7:00"}, "windows[0].from"),
        ({"to": "22:00"}, "windows[0].to"),
        ({"to": "٠٦:٠٠"}, "windows[0].to"),
        ({"timezone": "Berlin"}, "windows[0].timezone"),
        ({"timezone": "../../etc/passwd"}, "windows[0].timezone"),
        ({"timezone": "Europe"}, "windows[0].timezone"),
        ({"timezone": ""}, "windows[0].timezone"),
        ({"priorities": []}, "windows[0].priorities"),
        ({"priorities": [-1]}, "windows[0].priorities[0]"),
        ({"priorities": [10]}, "windows[0].priorities"),
        ({"priorities": [1_000_000_003]}, "windows[0].priorities"),
        ({"days": ["monday"]}, "windows[0].days[0]"),
        ({"day": ["mon"]}, "windows[0].day"),
    ],
)
def test_a_bad_window_is_refused_by_the_name_of_its_key(change: dict[str, Any], key: str) -> None:
    [found] = mistakes(windows=[{**NIGHT, **change}])
    assert found.startswith(f"{key}: "), found


def test_all_mistakes_are_named_at_once() -> None:
    found = mistakes(
        windows=[{**NIGHT, "from": "x", "timezone": "Nowhere/Land"}, {"priorities": [1]}],
        link={"bytes_per_day": -1, "bytes_per_second": 10**400, "timezone": "Mars/Base"},
        pump={"floor_share": 0.9},
    )
    keys = {each.partition(": ")[0] for each in found}
    assert keys == {
        "windows[0].from", "windows[0].timezone", "windows[1].from", "windows[1].to",
        "link.bytes_per_day", "link.bytes_per_second", "link.timezone", "pump.floor_share",
    }  # fmt: skip
