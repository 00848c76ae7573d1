"""Queue names: the original's, both ways."""

from __future__ import annotations

import pytest

from fairlead_edge.outbox import queues
from fairlead_edge.outbox.queues import DEFAULT_PRIORITY, NOTHING_DONE, Checkpointer, InFlight, QueueId

NAMES = [
    ("ep", DEFAULT_PRIORITY, "ep"),
    ("abc", 1234, "abc_Pri1234"),
    ("iothub", 0, "iothub_Pri0"),
    ("iothub", 9, "iothub_Pri9"),
    ("x_Pri4321", 1234, "x_Pri4321_Pri1234"),
    ("edge-1/mod/in", 3, "edge-1/mod/in_Pri3"),
]


@pytest.mark.parametrize(("endpoint", "priority", "name"), NAMES)
def test_names_are_written_and_read(endpoint: str, priority: int, name: str) -> None:
    assert str(QueueId(endpoint, priority)) == name
    assert queues.parse(name) == QueueId(endpoint, priority)


@pytest.mark.parametrize("name", ["ep_Pri4321a", "ep_Pri", "ep_Pri-1", "_Pri1", "ep_pri1", "ep_Pri1\n", "ep_Pri١"])
def test_what_does_not_end_in_a_priority_is_an_endpoint(name: str) -> None:
    assert queues.parse(name) == QueueId(name, DEFAULT_PRIORITY)


@pytest.mark.parametrize("priority", [*range(10), DEFAULT_PRIORITY])
def test_each_priority_has_one_live_lane_which_goes_before_the_rest_of_it(priority: int) -> None:
    lane = queues.live_lane(priority)
    assert queues.is_live_lane(lane) and not queues.is_live_lane(priority)
    assert queues.base(lane) == queues.base(priority) == priority and queues.live_lane(lane) == lane
    assert queues.rank(lane) == queues.rank(priority) - 1
    others = [each for each in (*range(10), DEFAULT_PRIORITY) if each != priority]
    assert all((queues.rank(lane) < queues.rank(other)) == (priority < other) for other in others)


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
    checkpointer = Checkpointer(checkpoint)
    assert checkpointer.commit(succeeded, remaining) == expected
    assert checkpointer.offset == expected


ONE, OTHER = QueueId("iothub", 1), QueueId("iothub", 2)


def test_what_is_out_is_spared_until_it_is_decided() -> None:
    out = InFlight()
    out.take(ONE, [1, 2, 3])
    assert out.not_in_flight(ONE, [0, 1, 2, 3, 4]) == [0, 4]
    assert out.not_in_flight(OTHER, [1]) == [1]
    out.decided(ONE, [1])
    out.release(ONE, [2])
    assert out.of(ONE) == {3} and out.of(OTHER) == frozenset()


def test_what_came_back_in_doubt_counts_when_it_ends_otherwise() -> None:
    out = InFlight()
    out.take(ONE, [1, 2, 3])
    out.release(ONE, [1, 2], in_doubt=True)
    out.release(ONE, [3])
    out.decided(ONE, [1])
    for _ in range(2):
        out.ended(ONE, [1, 2, 3])
    assert out.ended_in_doubt[ONE] == 1
