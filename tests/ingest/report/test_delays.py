"""Delays in buckets: quantiles are right to within a bucket, and counts add up."""

from __future__ import annotations

import math
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_ingest.report import over_time

WIDTH = 10 ** (1 / over_time.PER_DECADE)


def counted(seconds: list[float]) -> Counter[int]:
    micros = pa.array([round(each * 1e6) for each in seconds], pa.int64())
    return Counter(over_time.delay_buckets(micros).to_pylist())


@given(
    st.lists(st.floats(0.002, over_time.SECONDS_MAX / 2), min_size=1, max_size=50),
    st.sampled_from([0.01, 0.5, 0.95, 1.0]),
)
def test_a_quantile_is_right_to_within_a_bucket(seconds: list[float], fraction: float) -> None:
    """Never below the true one, and at most 12 % above."""
    true = sorted(seconds)[max(1, math.ceil(len(seconds) * fraction)) - 1]
    found = over_time.quantile(counted(seconds), fraction)
    assert found is not None and true * 0.999 <= found <= true * WIDTH * 1.001


@pytest.mark.parametrize("seconds", [-86_400.0, 0.0, 0.000_5])
def test_a_delay_below_a_millisecond_is_none(seconds: float) -> None:
    """A device whose clock is ahead makes no negative one."""
    assert over_time.quantile(counted([seconds]), 0.5) == 0.0


def test_a_year_is_the_longest() -> None:
    """A device that believes in 1970 spoils no picture."""
    found = over_time.quantile(counted([56 * 365 * 86_400.0]), 0.5)
    assert found is not None and over_time.SECONDS_MAX <= found <= over_time.SECONDS_MAX * WIDTH * 1.001


@pytest.mark.parametrize("years", [-8000, 340, 2026])
def test_a_clock_that_is_ages_away_is_counted(years: int) -> None:
    """One that was never set may begin in the year 1; in microseconds that is more than floats hold exactly."""
    micros = pa.array([years * 365 * 86_400 * 1_000_000 + 1], pa.int64())
    assert len(over_time.delay_buckets(micros)) == 1


def test_nothing_has_no_quantile() -> None:
    assert over_time.quantile({}, 0.5) is None


def test_counts_add_up() -> None:
    """Of two files it is the same as of both together."""
    one, two = [0.1, 0.2, 7.0], [3.0, 900.0]
    assert counted(one) + counted(two) == counted(one + two)
