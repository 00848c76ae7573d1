"""Checks by counting what the story promises of messages: each is one row, and alarms go first."""

from __future__ import annotations

from collections.abc import Sequence

from e2e.demo.count import Accepted, Row, Verdict, first_and_last, percentile

BESIDE_SECONDS = 0.1
"""Alarms leave the edge first, but topics are written in parallel: one write may end so much earlier than another."""


class Wrong(AssertionError):
    """The story did not go as promised; the text says which promise."""


def check_counts(verdict: Verdict, when: str) -> None:
    """Raise Wrong when the counts do not agree."""
    if not verdict.ok:
        samples = {name: list(getattr(verdict, name))[:5] for name in ("lost", "duplicated", "foreign", "misplaced")}
        counts = {name: len(getattr(verdict, name)) for name in samples}
        raise Wrong(f"{when} accepted messages and rows disagree: {counts}, for example {samples}")


def check_order(node: str, away: Sequence[Accepted], rows: Sequence[Row], returned: float) -> str:
    """Check that alarms accepted while the node was ``away`` left before its telemetry; returns a sentence.

    Raises Wrong when they did not.  ``returned``: when the link came back.
    """
    alarms, backlog = ({each.id: each for each in away if each.priority == priority} for priority in (0, 1))
    alarm_times, backlog_times = first_and_last(rows, alarms), first_and_last(rows, backlog)
    if alarm_times is None or backlog_times is None:
        raise Wrong(f"the part replayed while {node} was away must hold alarms and telemetry")
    last_alarm, (first_waiting, last_waiting) = alarm_times[1], backlog_times
    if last_alarm > first_waiting + BESIDE_SECONDS:
        raise Wrong(f"{node}'s last alarm reached its topic {last_alarm - first_waiting:.3f} s after its first backlog")
    return (
        f"{node}'s {len(alarms)} alarms were in their topic {last_alarm - returned:.2f} s after the link "
        f"returned, ahead of the {len(backlog)} messages that had waited longer (the last after "
        f"{last_waiting - returned:.2f} s)"
    )


def delays(rows: Sequence[Row], node: str, priority: int) -> tuple[str, str]:
    """Median and 99th percentile from enqueued at the edge to durable in the topic."""
    seconds = [row.published - row.enqueued for row in rows if (row.node, row.priority) == (node, priority)]
    return f"{percentile(seconds, 0.5):.2f} s", f"{percentile(seconds, 0.99):.2f} s"
