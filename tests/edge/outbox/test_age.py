"""The store's clock: reboots, clock steps, clones."""

from __future__ import annotations

from fairlead_edge.outbox.age import AgeClock, ClockReading, Stamp


def reading(boot: str, boot_seconds: float, wall_seconds: float) -> ClockReading:
    return ClockReading(boot_id=boot, boot_seconds=boot_seconds, wall_seconds=wall_seconds)


STAMP = Stamp(boot_id="a", boot_seconds=500, wall_seconds=10_000, age_seconds=2_000)


def test_new_store_starts_at_nought() -> None:
    assert AgeClock(None, reading("a", 900, 10_000)).now(905) == 5


def test_within_a_boot_only_boot_time_counts() -> None:
    for timestamp in (0, 10_000, 9e9):
        assert AgeClock(STAMP, reading("a", 600, timestamp)).now(610) == 2_110


def test_across_a_reboot_the_time_without_power_counts() -> None:
    clock = AgeClock(STAMP, reading("b", 30, 10_130))
    assert clock.now(30) == 2_000 + 100 + 30
    assert clock.now(40) == 2_000 + 100 + 40


def test_wall_clock_in_the_past_revives_and_kills_nothing() -> None:
    """A machine without a battery clock starts in 1970: the time without power is not counted, that is all."""
    clock = AgeClock(STAMP, reading("b", 30, 5))
    assert clock.now(30) == 2_030


def test_wall_clock_step_while_running_changes_nothing() -> None:
    """Time servers correct the clock after the boot; ages go on evenly and so do the stamps."""
    clock = AgeClock(STAMP, reading("b", 30, 5))
    stamp = clock.stamp(reading("b", 50, 1_700_000_000))
    assert stamp == Stamp(boot_id="b", boot_seconds=50, wall_seconds=1_700_000_000, age_seconds=2_050)
    assert AgeClock(stamp, reading("b", 60, 3)).now(60) == 2_060


def test_clone_with_less_boot_time_does_not_go_back() -> None:
    assert AgeClock(STAMP, reading("a", 100, 10_000)).now(100) == 2_000


def test_clock_never_falls() -> None:
    clock = AgeClock(STAMP, reading("a", 600, 0))
    assert clock.now(590) == clock.now(600) == 2_100
