"""The checkpoint's arithmetic, as the original computes it."""

from __future__ import annotations

import pytest

from fairlead_edge.outbox.queues import NOTHING_DONE, Checkpointer

LOWEST, HIGHEST = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("checkpoint", "offset", "admitted"),
    [
        (37, LOWEST, False),
        (37, 0, False),
        (37, 37, False),
        (37, 38, True),
        (37, HIGHEST, True),
        (0, 0, False),
        (0, 1, True),
        (NOTHING_DONE, 0, True),
    ],
)
def test_only_what_lies_above_is_to_be_done(checkpoint: int, offset: int, admitted: bool) -> None:
    """Up to and including the checkpoint all is done."""
    assert Checkpointer(checkpoint).admits(offset) is admitted


@pytest.mark.parametrize(
    ("checkpoint", "succeeded", "remaining", "expected"),
    [
        (1000, [30], [], 1000),
        (1000, [1001], [], 1001),
        (1000, [HIGHEST], [], HIGHEST),
        (1000, [LOWEST], [], 1000),
        (10, [13, 12, 11, 10, 9], [], 13),
        (-1, [31, 30], [], 31),
        (-1, [31, 29], [30], 29),
        (-1, [31, 29], [30, 28], -1),
        (-1, [0, 1], [2, 3], 1),
        (-1, [2, 3], [0, 1], -1),
        (-1, [], [], -1),
        (5, [], [6], 5),
    ],
)
def test_checkpoint_moves_to_the_last_of_what_is_done(
    checkpoint: int, succeeded: list[int], remaining: list[int], expected: int
) -> None:
    """It never falls and never passes what remains."""
    checkpointer = Checkpointer(checkpoint)
    assert checkpointer.commit(succeeded, remaining) == expected
    assert checkpointer.offset == expected
