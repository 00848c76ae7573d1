"""Checks the guarantees for messages by counting: each is one row, and alarms go first."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from e2e.demo.count import Accepted, Row, Verdict, percentile


class Wrong(AssertionError):
    """A guarantee did not hold; the text says which one."""


def check_counts(verdict: Verdict, when: str) -> None:
    """Raise Wrong when the counts do not agree."""
    if not verdict.ok:
        samples = {name: list(getattr(verdict, name))[:5] for name in ("lost", "duplicated", "foreign", "misplaced")}
        counts = {name: len(getattr(verdict, name)) for name in samples}
        raise Wrong(f"{when} accepted messages and rows disagree: {counts}, for example {samples}")


def check_order(node: str, away: Sequence[Accepted], rows: Sequence[Row], returned: float) -> str:
    """Check that alarms accepted while the node was ``away`` left before its telemetry; returns a sentence.

    A new session probes with the most urgent batch alone, so an alarm is durable before any telemetry.  Once that batch
    is answered, topics are written in parallel, and the time between two such writes depends on the disk and the load:
    the last alarm must be durable before half of the telemetry is.

    Raises Wrong otherwise.  ``returned``: when the link came back, in Unix seconds.
    """
    alarms, backlog = (
        sorted(row.published for row in rows if row.id in ids)
        for ids in ({each.id for each in away if each.priority == priority} for priority in (0, 1))
    )
    if not alarms or not backlog:
        raise Wrong(f"the part replayed while {node} was away must hold alarms and telemetry")
    if alarms[0] > backlog[0]:
        raise Wrong(f"{node}'s first alarm reached its topic {alarms[0] - backlog[0]:.3f} s after its first telemetry")
    earlier = bisect.bisect_left(backlog, alarms[-1])
    if earlier > len(backlog) // 2:
        raise Wrong(f"{node}'s last alarm reached its topic after {earlier} of {len(backlog)} waiting messages")
    return (
        f"{node}'s {len(alarms)} alarms were in their topic {alarms[-1] - returned:.2f} s after the link "
        f"returned, ahead of {len(backlog) - earlier} of the {len(backlog)} messages that had waited longer "
        f"(the last after {backlog[-1] - returned:.2f} s)"
    )


def delays(rows: Sequence[Row], node: str, priority: int) -> tuple[str, str]:
    """Median and 99th percentile from enqueued at the edge to durable in the topic."""
    seconds = [row.published - row.enqueued for row in rows if (row.node, row.priority) == (node, priority)]
    return f"{percentile(seconds, 0.5):.2f} s", f"{percentile(seconds, 0.99):.2f} s"
