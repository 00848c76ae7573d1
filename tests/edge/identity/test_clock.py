"""Which clocks are believed, and what is known where none is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_edge.identity.clock import BEHIND_SECONDS, BUILD_DATE, STEP_SECONDS, Anchor, anchored, judge
from fairlead_edge.outbox.age import ClockReading

DAY = 86_400.0
YEAR = 365.25 * DAY
NOW = BUILD_DATE.timestamp() + 200 * DAY
ISSUED = NOW - 30 * DAY
ANCHOR = Anchor(wall_seconds=NOW, boot_id="one", boot_seconds=1000.0)


def reading(wall: float, *, boot_id: str = "two", boot: float = 60.0) -> ClockReading:
    return ClockReading(boot_id=boot_id, boot_seconds=boot, wall_seconds=wall)


@pytest.mark.parametrize("anchor", [None, ANCHOR])
def test_a_device_without_a_battery_begins_in_1970(anchor: Anchor | None) -> None:
    found = judge(reading(12.0), anchor, own_not_before=ISSUED)
    assert "1970-01-01" in found.distrust and found.earliest == (NOW if anchor else ISSUED)
    assert judge(reading(12.0), None, own_not_before=None).earliest == BUILD_DATE.timestamp()


def test_a_device_in_2099_is_not_believed_either() -> None:
    found = judge(reading(4_085_000_000.0), ANCHOR, own_not_before=ISSUED)
    assert "2099" in found.distrust and found.earliest == NOW


@pytest.mark.parametrize("away", [0.0, 120 * DAY, 3 * YEAR])
def test_a_device_that_was_switched_off_for_long_is_believed(away: float) -> None:
    assert not judge(reading(NOW + away), ANCHOR, own_not_before=ISSUED).distrust


@pytest.mark.parametrize("step", [-10 * YEAR, 10 * YEAR, -2 * BEHIND_SECONDS, 2 * STEP_SECONDS])
def test_a_clock_that_steps_while_it_runs_is_noticed(step: float) -> None:
    later = reading(NOW + DAY + step, boot_id="one", boot=1000.0 + DAY)
    found = judge(later, ANCHOR, own_not_before=ISSUED)
    assert found.distrust and found.earliest == NOW + DAY
    assert not judge(reading(NOW + DAY, boot_id="one", boot=1000.0 + DAY), ANCHOR, own_not_before=ISSUED).distrust


@given(wall=st.floats(-1e9, 1e11), boot=st.floats(0, 1e9), same=st.booleans(), not_before=st.floats(0, 5e9))
def test_the_bound_never_falls(wall: float, boot: float, same: bool, not_before: float) -> None:
    now = reading(wall, boot_id="one" if same else "two", boot=boot)
    judgement = judge(now, ANCHOR, own_not_before=ISSUED)
    left = anchored(now, judgement, peer_not_before=not_before)
    assert judgement.earliest >= ANCHOR.wall_seconds
    assert left.wall_seconds >= judgement.earliest - BEHIND_SECONDS
    assert left.wall_seconds >= not_before


def test_a_session_with_a_clock_that_is_not_believed_raises_the_bound_by_the_hub_s_certificate() -> None:
    now = reading(4_085_000_000.0)
    judgement = judge(now, ANCHOR, own_not_before=ISSUED)
    left = anchored(now, judgement, peer_not_before=NOW + 40 * DAY)
    assert left.wall_seconds == NOW + 40 * DAY
