"""Queue names: the original's, both ways."""

from __future__ import annotations

import pytest

from fairlead_edge.outbox import queues
from fairlead_edge.outbox.queues import DEFAULT_PRIORITY, QueueId

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
    """``_Pri<n>`` is appended, but not for the default priority."""
    assert str(QueueId(endpoint, priority)) == name
    assert queues.parse(name) == QueueId(endpoint, priority)


@pytest.mark.parametrize("name", ["ep_Pri4321a", "ep_Pri", "ep_Pri-1", "_Pri1", "ep_pri1", "ep_Pri1\n", "ep_Pri١"])
def test_what_does_not_end_in_a_priority_is_an_endpoint(name: str) -> None:
    """Only digits, only at the very end, only after something."""
    assert queues.parse(name) == QueueId(name, DEFAULT_PRIORITY)


def test_queues_sort_by_urgency() -> None:
    """Lower numbers first, the default last."""
    queues = [QueueId("iothub"), QueueId("iothub", 9), QueueId("iothub", 0)]
    assert [queue.priority for queue in sorted(queues)] == [0, 9, DEFAULT_PRIORITY]


@pytest.mark.parametrize("priority", [*range(10), DEFAULT_PRIORITY])
def test_each_priority_has_one_live_lane_which_goes_before_the_rest_of_it(priority: int) -> None:
    lane = queues.live_lane(priority)
    assert queues.is_live_lane(lane) and not queues.is_live_lane(priority)
    assert queues.base(lane) == queues.base(priority) == priority and queues.live_lane(lane) == lane
    assert queues.rank(lane) == queues.rank(priority) - 1
    others = [each for each in (*range(10), DEFAULT_PRIORITY) if each != priority]
    assert all((queues.rank(lane) < queues.rank(other)) == (priority < other) for other in others)
