"""The demo's promises, on counted messages."""

from __future__ import annotations

import pytest
from e2e.demo import promises
from e2e.demo.count import Accepted, Ledger, Row
from e2e.demo.promises import Wrong


def row(id: str, priority: int, published: float) -> Row:
    return Row(id=id, node="n", priority=priority, enqueued=0.0, published=published, ingested=published)


AWAY = [Accepted(id="alarm", node="n", priority=0, at=1.0), Accepted(id="reading", node="n", priority=1, at=0.5)]


def test_alarms_go_first() -> None:
    """Topics are written in parallel: the first alarm precedes all telemetry, the last precedes half of it."""
    away = [*AWAY, Accepted(id="alarm-2", node="n", priority=0, at=1.0)]
    away += [Accepted(id=f"reading-{each}", node="n", priority=1, at=0.5) for each in range(3)]
    readings = [row(f"reading-{each}", 1, 10.6 + each) for each in range(3)]
    said = promises.check_order("n", AWAY, [row("alarm", 0, 10.5), row("reading", 1, 12.0)], 10.0)
    assert "1 alarms were in their topic 0.50 s after" in said and "the last after 2.00 s" in said
    said = promises.check_order("n", away, [row("alarm", 0, 10.5), row("alarm-2", 0, 10.7), *readings], 10.0)
    assert "ahead of 2 of the 3 messages" in said
    with pytest.raises(Wrong, match="last alarm reached its topic after 3 of 3 waiting messages"):
        promises.check_order("n", away, [row("alarm", 0, 10.5), row("alarm-2", 0, 13.0), *readings], 10.0)
    with pytest.raises(Wrong, match=r"0\.500 s after its first telemetry"):
        promises.check_order("n", AWAY, [row("alarm", 0, 11.0), row("reading", 1, 10.5)], 10.0)


def test_without_alarms_nothing_is_shown() -> None:
    """The story must bring both."""
    with pytest.raises(Wrong, match="must hold alarms and telemetry"):
        promises.check_order("n", AWAY[1:], [row("reading", 1, 10.5)], 10.0)


def test_counts_that_disagree_are_shown_with_examples() -> None:
    """Nothing accepted and nothing there is no disagreement."""
    promises.check_counts(Ledger().judge([]), "at the end")
    with pytest.raises(Wrong, match=r"at the end .*'foreign': 1"):
        promises.check_counts(Ledger().judge([row("x", 0, 1.0)]), "at the end")
