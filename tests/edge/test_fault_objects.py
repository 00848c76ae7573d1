"""A short dose of `make faults ONLY=downstream` for the edge's store."""

from __future__ import annotations

import pytest
from tests.faults import fault_edge_objects
from tests.faults.collect import held


@pytest.mark.faults
def test_nothing_acknowledged_is_lost_over_kill_9() -> None:
    """Killed and cut at random under load, the edge holds what it said it holds."""
    count = fault_edge_objects.run(6, 5, lambda _: None)
    assert count["kills"] == 6 and count["acknowledged"] > 0
    assert held({**count, "name": "", "room": "downstream", "seed": 5, "error": ""}), count


@pytest.mark.parametrize(
    ("found", "verdict"), [("d2", ""), ("d3", ""), (None, ""), ("d1", "lost"), ("never-sent", "untrue")]
)
def test_the_judge_sees_what_is_lost_and_what_is_untrue(found: str | None, verdict: str) -> None:
    history = fault_edge_objects.History("a")
    history.states += ["d1", "d2", "d3", None]
    history.acknowledged = 2
    assert history.judge(found) == verdict


def test_the_judge_misses_an_object_that_was_acknowledged() -> None:
    history = fault_edge_objects.History("a")
    history.states += ["d1"]
    history.acknowledged = 1
    assert history.judge(None) == "lost"
