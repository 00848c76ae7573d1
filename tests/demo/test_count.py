"""The verdict finds every way in which messages and rows can disagree."""

from __future__ import annotations

import pytest
from e2e.demo.count import Accepted, Ledger, Row, Verdict, percentile


def row(id: str, node: str = "edge-1", priority: int = 1, published: float = 0.0) -> Row:
    """A row of the table."""
    return Row(id=id, node=node, priority=priority, enqueued=0.0, published=published, ingested=0.0)


def judge(*rows: Row) -> Verdict:
    """The verdict over a ledger with `a` and `b` of edge-1."""
    ledger = Ledger()
    for id in ("a", "b"):
        ledger.note(Accepted(id=id, node="edge-1", priority=1, at=0.0))
    return ledger.judge(rows)


def test_each_once_is_ok() -> None:
    """Order does not matter, counts do."""
    verdict = judge(row("b"), row("a"))
    assert verdict.ok
    assert [(each.node, each.priority, each.accepted, each.rows) for each in verdict.tallies] == [("edge-1", 1, 2, 2)]


def test_a_missing_row_is_lost() -> None:
    """Accepted and not in the table."""
    assert judge(row("a")).lost == ["b"]


def test_a_second_row_is_a_duplicate() -> None:
    """Even when another one is missing, so that the totals agree."""
    verdict = judge(row("a"), row("a"))
    assert (verdict.lost, verdict.duplicated, verdict.ok) == (["b"], ["a"], False)


def test_a_row_nobody_published_is_foreign() -> None:
    """The table holds only what was accepted."""
    assert judge(row("a"), row("b"), row("c")).foreign == ["c"]


def test_a_row_of_another_node_or_priority_is_misplaced() -> None:
    """Who said it and how urgent it was belong to the message."""
    assert judge(row("a", node="edge-2"), row("b", priority=0)).misplaced == ["a", "b"]


def test_an_id_answered_twice_is_refused() -> None:
    """Two messages with one id could hide a loss."""
    ledger = Ledger()
    ledger.note(Accepted(id="a", node="edge-1", priority=1, at=0.0))
    with pytest.raises(ValueError, match="edge-1 answered the id a twice"):
        ledger.note(Accepted(id="a", node="edge-1", priority=1, at=1.0))


def test_percentile() -> None:
    """Times for the table of figures."""
    assert (percentile([3.0, 1.0, 2.0], 0.5), percentile([], 0.99)) == (2.0, 0.0)
