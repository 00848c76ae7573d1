"""The curves alone; what a policy makes of them is tested in ``test_delivery``."""

from __future__ import annotations

import pytest

from fairlead_wire.backoff import curves
from fairlead_wire.backoff.curves import Curve

CURVES: tuple[Curve, ...] = ("linear", "arithmetic", "geometric", "exponential")


@pytest.mark.parametrize("curve", CURVES)
def test_a_curve_rises_from_the_lowest_to_the_highest(curve: Curve) -> None:
    """Both are reached exactly, and no delay is below the one before it."""
    found = [curves.delay(curve, 0.1, 1e9, index, 200) for index in range(200)]
    assert (found[0], found[-1]) == (0.1, 1e9) and found == sorted(found)


@pytest.mark.parametrize("curve", CURVES)
def test_a_curve_of_one_delay_is_its_lowest(curve: Curve) -> None:
    """As a single retry waits the minimum."""
    assert curves.delay(curve, 5, 30, 0, 1) == 5


@pytest.mark.parametrize(("curve", "retries"), [("linear", 6), ("arithmetic", 5), ("geometric", 5), ("exponential", 5)])
def test_zaqar_counts_a_started_step_in_one_curve_only(curve: Curve, retries: int) -> None:
    """A span of 26 seconds is five steps of five and one that was begun."""
    assert curves.zaqar_retries(curve, 4, 30) == retries


@pytest.mark.parametrize("curve", CURVES)
def test_zaqar_waits_whole_seconds(curve: Curve) -> None:
    """They are cut off, not rounded."""
    found = [curves.zaqar_delay(curve, 5, 30, index, 5) for index in range(5)]
    assert found == sorted(found) and all(each == int(each) for each in found) and found[0] in (4, 5)
