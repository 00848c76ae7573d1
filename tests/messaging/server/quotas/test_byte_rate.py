"""Bytes a second."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_messaging.server.quotas import BURST_SECONDS, NAMESPACES_MAX, ByteRate


def test_a_seconds_worth_comes_at_once_and_the_rest_is_waited_for() -> None:
    """A request of any size comes in as soon as nothing is owed."""
    rate = ByteRate()
    assert rate.wait("a", 0.0) == 0.0
    rate.take("a", 1000, 100, 0.0)
    assert rate.wait("a", 0.0) == pytest.approx(9.0)
    assert rate.wait("b", 0.0) == 0.0
    assert rate.wait("a", 9.0) == pytest.approx(0.0)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=200))
def test_who_waits_as_told_takes_no_more_than_its_rate(sizes: list[int]) -> None:
    """Whatever the sizes are: in any time no more than the rate, a second's worth and one request."""
    rate, now, taken = ByteRate(), 0.0, 0
    for size in sizes:
        now += rate.wait("a", now)
        rate.take("a", size, 100, now)
        taken += size
        assert taken <= 100 * (now + BURST_SECONDS) + max(sizes) + 0.01


def test_namespaces_without_end_are_not_remembered() -> None:
    """The oldest is forgotten, and then owes nothing."""
    rate = ByteRate()
    for number in range(NAMESPACES_MAX + 1):
        rate.take(str(number), 1000, 1, 0.0)
    assert rate.wait("0", 0.0) == 0.0 and rate.wait("1", 0.0) > 0
