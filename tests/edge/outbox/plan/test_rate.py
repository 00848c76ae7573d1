"""So many bytes a second, over any pauses."""

from __future__ import annotations

from random import Random

import pytest

from fairlead_edge.outbox.plan.gate import BATCH_SECONDS, BURST_SECONDS, Rate


def test_overdrawn_by_a_batch_it_waits_until_that_is_paid() -> None:
    rate = Rate(1000)
    assert rate.due(0.0) == 0.0 and rate.room(0.0) == 1000
    rate.left(3000, 0.0)
    due = rate.due(0.0)
    assert due == pytest.approx(2.0 + BATCH_SECONDS) and rate.room(1.0) == 0
    assert rate.due(due) == due


@pytest.mark.parametrize("bytes_per_second", [1, 3, 100, 1_000_000])
def test_what_leaves_after_a_wait_is_worth_a_batch(bytes_per_second: int) -> None:
    """A byte of room would let each small message go alone, with headers of its own and packed badly."""
    rate = Rate(bytes_per_second)
    rate.left(5 * bytes_per_second, 0.0)
    due = rate.due(0.0)
    assert rate.due(due) == due and rate.room(due) >= int(bytes_per_second * BATCH_SECONDS)
    assert due <= 5.0 + max(0.0, 1 / bytes_per_second)


def test_over_any_time_no_more_leaves_than_the_rate_a_burst_and_a_batch() -> None:
    for seed in range(20):
        dice, rate, now, left, began, largest = Random(seed), Rate(5000), 0.0, 0, 0.0, 0
        while now < 300:
            now = max(now + dice.expovariate(2), rate.due(now)) if dice.random() < 0.3 else rate.due(now)
            size = min(dice.randrange(1, 9000), max(rate.room(now), dice.randrange(1, 3000)))
            largest = max(largest, size)
            rate.left(size, now)
            left += size
            assert left <= 5000 * (now - began + BURST_SECONDS) + largest
        assert rate.due(now) - now <= largest / 5000 + BATCH_SECONDS + 0.001
