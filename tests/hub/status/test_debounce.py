"""What comes and goes within seconds is reported once."""

from __future__ import annotations

import pytest

from fairlead_hub.status.debounce import (
    AWAY_SECONDS,
    COMING_SECONDS,
    COUNTS_SECONDS,
    TIMES_SECONDS,
    Change,
    Debounce,
    ReturningNodes,
    ReturnSummary,
)


@pytest.mark.parametrize(
    ("change", "seconds"),
    [
        ("urgent", 0.0),
        ("came", COMING_SECONDS),
        ("coming", COUNTS_SECONDS),
        ("left", AWAY_SECONDS),
        ("counts", COUNTS_SECONDS),
        ("times", TIMES_SECONDS),
    ],
)
def test_each_change_has_its_time(change: Change, seconds: float) -> None:
    """Counted from the first change that is not written, whatever follows."""
    settling = Debounce()
    assert settling.is_due("edge-1", change, 5.0) is (seconds == 0.0)
    assert not seconds or not settling.is_due("edge-1", change, 5.0 + seconds - 0.1)
    assert settling.due(5.0 + seconds - 0.1) == []
    assert settling.due(5.0 + seconds) == settling.waiting() == ["edge-1"]
    assert settling.is_due("edge-1", change, 5.0 + seconds)


def test_what_changes_back_in_time_is_not_reported_at_all() -> None:
    """A link that was broken for a second; the next break counts from its own beginning."""
    settling = Debounce()
    assert not settling.is_due("edge-1", "left", 0.0)
    settling.done("edge-1")
    assert settling.waiting() == []
    assert not settling.is_due("edge-1", "left", AWAY_SECONDS)
    assert settling.is_due("edge-1", "urgent", AWAY_SECONDS)


def test_all_come_back() -> None:
    """Reported once, with how long it took."""
    returning = ReturningNodes()
    assert returning.summary(0.0, give_up=False) is None, "no node was expected yet"
    returning.expect("a", 1.0)
    returning.expect("b", 2.0)
    returning.back("a")
    returning.back("never expected")
    assert returning.waiting == 1 and returning.summary(3.0, give_up=False) is None
    returning.back("b")
    assert returning.waiting == 0
    assert returning.summary(4.0, give_up=False) == ReturnSummary(returned=2, missing=0, seconds=3.0)
    assert returning.summary(5.0, give_up=True) is None
    returning.expect("c", 6.0)
    assert returning.waiting == 0, "what happens later is no return after a start"


def test_some_do_not() -> None:
    """A Node that was deleted is not missing."""
    returning = ReturningNodes()
    for node in "abc":
        returning.expect(node, 0.0)
    returning.back("a")
    returning.forget("b")
    assert returning.summary(30.0, give_up=True) == ReturnSummary(returned=1, missing=1, seconds=30.0)
    assert returning.waiting == 0


def test_no_node_was_there() -> None:
    """A first start has nothing to tell."""
    returning = ReturningNodes()
    assert returning.summary(30.0, give_up=True) is None
