"""The store's clock: reboots, clock steps, clones."""

from __future__ import annotations

import pytest

from fairlead_edge.outbox.age import AgeClock, ClockReading, Stamp


def reading(boot: str, boot_seconds: float, wall_seconds: float) -> ClockReading:
    return ClockReading(boot_id=boot, boot_seconds=boot_seconds, wall_seconds=wall_seconds)


STAMP = Stamp(boot_id="a", boot_seconds=500, wall_seconds=10_000, age_seconds=2_000)


@pytest.mark.parametrize(
    ("stamp", "opened", "boot_seconds", "age"),
    [
        pytest.param(None, reading("a", 900, 10_000), 905, 5, id="a new store starts at 0"),
        pytest.param(STAMP, reading("a", 600, 0), 610, 2_110, id="within a boot only boot time counts"),
        pytest.param(STAMP, reading("a", 600, 9e9), 610, 2_110, id="whatever the wall clock shows"),
        pytest.param(STAMP, reading("b", 30, 10_130), 30, 2_130, id="across a reboot the time without power counts"),
        pytest.param(STAMP, reading("b", 30, 10_130), 40, 2_140, id="then boot time"),
        pytest.param(STAMP, reading("b", 30, 5), 30, 2_030, id="a wall clock in 1970 takes nothing back"),
        pytest.param(STAMP, reading("a", 100, 10_000), 100, 2_000, id="a clone with less boot time does not go back"),
        pytest.param(STAMP, reading("a", 600, 0), 590, 2_100, id="an older reading does not go back"),
    ],
)
def test_age(stamp: Stamp | None, opened: ClockReading, boot_seconds: float, age: float) -> None:
    assert AgeClock(stamp, opened).now(boot_seconds) == age


def test_wall_clock_step_while_running_changes_nothing() -> None:
    """Time servers correct the clock after the boot."""
    clock = AgeClock(STAMP, reading("b", 30, 5))
    stamp = clock.stamp(reading("b", 50, 1_700_000_000))
    assert stamp == Stamp(boot_id="b", boot_seconds=50, wall_seconds=1_700_000_000, age_seconds=2_050)
    assert AgeClock(stamp, reading("b", 60, 3)).now(60) == 2_060
