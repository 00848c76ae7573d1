"""The device's clock: its year, its synchronisation, and against the hub's."""

from __future__ import annotations

import datetime

import pytest

from fairlead_cli.doctor.device import clock

NOW = datetime.datetime(2026, 11, 22, 10, 0, tzinfo=datetime.UTC)


def test_a_clock_without_a_battery_is_a_problem() -> None:
    first, *_ = clock.judge(datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC), True)
    assert first.level == "problem" and "1970-01-01" in first.message


@pytest.mark.parametrize(("synchronised", "level"), [(True, "ok"), (False, "warning"), (None, "ok")])
def test_synchronised(synchronised: bool | None, level: str) -> None:
    assert [each.level for each in clock.judge(NOW, synchronised)] == ["ok", level]


@pytest.mark.parametrize(("seconds", "level"), [(2, "ok"), (-60, "warning"), (86_400, "problem")])
def test_skew(seconds: int, level: str) -> None:
    [found] = clock.judge_skew(NOW, NOW + datetime.timedelta(seconds=seconds))
    assert found.level == level
    assert level == "ok" or ("ahead of" if seconds > 0 else "behind") in found.message


def test_a_hub_that_sends_no_date() -> None:
    assert list(clock.judge_skew(None, NOW)) == []


# ---- the kernel answers without any right ----


def test_it_answers() -> None:
    assert clock.synchronised() in (True, False, None)
