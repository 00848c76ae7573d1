"""Each that waits gets its share, whatever the sizes."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from fairlead_edge.outbox.pump.pace import EARNED_BYTES_MAX, Shares

BATCH = 8000


def split(share: float, priorities: tuple[int, ...], batches: int = 4000, seed: int = 1) -> Counter[int]:
    """The part of each where all have endless backlogs."""
    shares, dice, sent = Shares(share), Random(seed), Counter[int]()
    for _ in range(batches):
        priority = (shares.due(BATCH) or [min(priorities)])[0]
        size = dice.randrange(BATCH // 2, BATCH)
        sent[priority] += size
        shares.left(priority, size, priorities)
    return Counter({priority: round(100 * size / sent.total()) for priority, size in sent.items()})


def test_without_a_share_the_most_urgent_goes_alone() -> None:
    assert split(0.0, (0, 5, 9)) == {0: 100}


@pytest.mark.parametrize(
    ("share", "priorities", "parts"),
    [
        (0.05, (0, 9), {0: 95, 9: 5}),
        (0.1, (0, 5, 9), {0: 80, 5: 10, 9: 10}),
        (0.5, (0, 9), {0: 50, 9: 50}),
        (0.5, (0, 5, 9), {0: 33, 5: 33, 9: 33}),
    ],
)
def test_each_less_urgent_one_gets_its_share(share: float, priorities: tuple[int, ...], parts: dict[int, int]) -> None:
    found = split(share, priorities)
    assert all(abs(found[priority] - part) <= 1 for priority, part in parts.items()), found


def test_earnings_are_bounded_and_end_with_the_waiting() -> None:
    shares = Shares(0.5)
    for _ in range(100):
        shares.left(0, EARNED_BYTES_MAX, [0, 9])
    shares.left(9, EARNED_BYTES_MAX, [0, 9])
    assert shares.due(1) == []
    shares.left(0, 10_000, [0, 9])
    assert shares.due(1) == [9]
    shares.left(0, 10_000, [0])
    assert shares.due(1) == []


def test_what_goes_because_nothing_urgent_waits_costs_nothing() -> None:
    shares = Shares(0.1)
    shares.left(9, 1 << 20, [9])
    shares.left(0, 100_000, [0, 9])
    assert shares.due(5000) == [9]


def test_a_message_larger_than_earned_is_paid_off() -> None:
    shares = Shares(0.5)
    shares.left(0, 1000, [0, 9])
    shares.left(9, 5000, [0, 9])
    for _ in range(3):
        shares.left(0, 1000, [0, 9])
        assert shares.due(1) == []
    for _ in range(3):
        shares.left(0, 1000, [0, 9])
    assert shares.due(1) == [9]


@pytest.mark.parametrize(
    ("live", "floor", "ranks", "parts"),
    [
        (0.2, 0.0, (18, 19), {18: 20, 19: 80}),
        (0.5, 0.0, (18, 19), {18: 50, 19: 50}),
        (0.9, 0.0, (18, 19), {18: 90, 19: 10}),
        (0.5, 0.1, (10, 11, 19), {10: 45, 11: 45, 19: 10}),
    ],
)
def test_the_live_lane_and_the_rest_share_what_their_priority_gets(
    live: float, floor: float, ranks: tuple[int, ...], parts: dict[int, int]
) -> None:
    shares, dice, sent = Shares(floor, live), Random(1), Counter[int]()
    for _ in range(6000):
        rank = (shares.due(BATCH) or [min(ranks)])[0]
        size = dice.randrange(BATCH // 2, BATCH)
        sent[rank] += size
        shares.left(rank, size, ranks)
    found = {rank: 100 * size / sent.total() for rank, size in sent.items()}
    assert all(abs(found[rank] - part) <= 2 for rank, part in parts.items()), found
