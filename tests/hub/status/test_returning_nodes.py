"""Who is waited for after a start, and how it ended."""

from __future__ import annotations

from fairlead_hub.status.returning_nodes import ReturningNodes, ReturnSummary


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
