"""Counts over time as points of a chart, and delays in buckets."""

from __future__ import annotations

import math
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_ingest.report import over_time
from fairlead_ingest.report.over_time import OverTime

NOON = 1_795_262_400
YEAR = 366 * 86_400


def test_what_arrived_and_was_taken_in():
    counted = OverTime()
    counted.add_arrived([(NOON, 10), (NOON + 1, 10), (NOON + 3, 4)])
    counted.add_taken([(NOON + 1, 8), (NOON + 3, 16)])
    counted.add_delayed([(NOON, 0, 10), (NOON + 1, 20, 9), (NOON + 1, 60, 1)])
    points = counted.points()
    assert [(point.seconds - NOON, point.arrived, point.taken, point.waiting) for point in points] == [
        (0, 10.0, 0.0, 10),
        (1, 10.0, 8.0, 12),
        (2, 0.0, 0.0, 12),
        (3, 4.0, 16.0, 0),
    ]
    assert points[2].p50 is None and points[3].p50 is None
    assert points[1].p50 == 10 ** (21 / 20) and points[1].p95 == 10 ** (61 / 20)


def test_nothing_has_no_points_and_no_quantile():
    assert OverTime().points() == [] and OverTime().by_hour() == []
    assert over_time.quantile({}, 0.5) is None


def test_hours():
    counted = OverTime()
    counted.add_arrived([(NOON - 1, 1), (NOON, 2), (NOON + 3599, 3)])
    assert counted.by_hour() == [(NOON - 3600, 1), (NOON, 5)]


@given(
    st.lists(st.tuples(st.integers(0, YEAR), st.integers(0, 86_400), st.integers(1, 9)), min_size=1, max_size=40),
    st.sampled_from([1, 3600, YEAR]),
)
def test_points_are_few_and_lose_no_message(rows, span):
    counted = OverTime()
    for after, delay, count in rows:
        at = NOON + after % span
        counted.add_arrived([(at, count)])
        counted.add_taken([(at + delay, count)])
    points = counted.points()
    assert len(points) <= over_time.POINTS_MAX + 1
    width = points[1].seconds - points[0].seconds if len(points) > 1 else 1
    total = sum(count for _, _, count in rows)
    for found in (points, points):
        assert math.isclose(sum(point.arrived for point in found) * max(width, counted.step), total)
    assert points[-1].waiting == 0


@pytest.mark.slow
def test_a_long_time_is_counted_in_longer_steps():
    """Memory is bounded: 80,000 seconds apart become hours or more, and none is lost."""
    counted = OverTime()
    for each in range(80_000):
        counted.add_arrived([(NOON + each * 4000, 1)])
        counted.add_delayed([(NOON + each * 4000, 7, 1)])
    assert counted.step >= 6 * 3600 and len(counted._arrived) <= over_time.KEPT_MAX
    assert len(counted._delayed) <= over_time.KEPT_MAX
    assert sum(count for _, count in counted.by_hour()) == 80_000


WIDTH = 10 ** (1 / over_time.PER_DECADE)


def counted(seconds: list[float]) -> Counter[int]:
    micros = pa.array([round(each * 1e6) for each in seconds], pa.int64())
    return Counter(over_time.delay_buckets(micros).to_pylist())


@given(
    st.lists(st.floats(0.002, over_time.SECONDS_MAX / 2), min_size=1, max_size=50),
    st.sampled_from([0.01, 0.5, 0.95, 1.0]),
)
def test_a_quantile_is_right_to_within_a_bucket(seconds, fraction):
    true = sorted(seconds)[max(1, math.ceil(len(seconds) * fraction)) - 1]
    found = over_time.quantile(counted(seconds), fraction)
    assert found is not None and true * 0.999 <= found <= true * WIDTH * 1.001


@pytest.mark.parametrize("seconds", [-86_400.0, 0.0, 0.000_5])
def test_a_delay_below_a_millisecond_is_none(seconds):
    assert over_time.quantile(counted([seconds]), 0.5) == 0.0


def test_a_year_is_the_longest():
    found = over_time.quantile(counted([56 * 365 * 86_400.0]), 0.5)
    assert found is not None and over_time.SECONDS_MAX <= found <= over_time.SECONDS_MAX * WIDTH * 1.001


@pytest.mark.parametrize("years", [-8000, 340, 2026])
def test_a_clock_that_is_ages_away_is_counted(years):
    """One that was never set may begin in the year 1; in microseconds that is more than floats hold exactly."""
    micros = pa.array([years * 365 * 86_400 * 1_000_000 + 1], pa.int64())
    assert len(over_time.delay_buckets(micros)) == 1


def test_counts_add_up():
    one, two = [0.1, 0.2, 7.0], [3.0, 900.0]
    assert counted(one) + counted(two) == counted(one + two)
