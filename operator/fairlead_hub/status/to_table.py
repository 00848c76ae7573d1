"""How long messages of a node take to reach a table: rows of EdgeNode ``status.toTable``, one per priority.

    the node's own report ─said─▶ rows, each as of its newest measurement
                              └─ a step (a new priority, a time doubled or halved) ─▶ EdgeNode is written soon

While a node is away its rows stay as last reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from fairlead_wire import message

ROWS_MAX: Final = 16
"""Priorities listed per node, the most urgent ones."""
STEP_FACTOR: Final = 2.0
"""EdgeNode is written for these figures alone if one grew or shrank by at least this factor."""
STEP_SECONDS: Final = 1.0
"""And differs by at least this."""
_NUMBERS: Final = ("priority", "measured", "window", "p50Seconds", "p95Seconds")

Row = dict[str, Any]
Status = Mapping[str, Any]


class ToTables:
    """The last reports of all nodes."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[Row, ...]] = {}
        self._written: dict[str, tuple[Row, ...]] = {}
        """The rows EdgeNode was last written with, or is about to be."""

    def received(self, node: str, said: Sequence[message.ToTable], status: Callable[[], Status], at: str) -> bool:
        """Whether the report is a step.  ``status``: of its EdgeNode; ``at``: the current time as text."""
        before = self.of(node, status)
        self._rows[node] = after = tuple(rows(said, before, at))
        if not is_step(after, self._written.setdefault(node, before)):
            return False
        self._written[node] = after
        return True

    def of(self, node: str, status: Callable[[], Status]) -> tuple[Row, ...]:
        """The node's rows; those of its EdgeNode if it has not reported to this hub yet."""
        found = self._rows.get(node)
        return tuple(rows_in(status())) if found is None else found

    def written(self, node: str) -> None:
        """EdgeNode is written with its rows."""
        if node in self._rows:
            self._written[node] = self._rows[node]

    def forget(self, node: str) -> None:
        """The node is gone."""
        self._rows.pop(node, None)
        self._written.pop(node, None)


def rows(said: Sequence[message.ToTable], before: Iterable[Mapping[str, Any]], at: str) -> list[Row]:
    """Most urgent first; figures equal to ``before`` keep their time."""
    known = {row["priority"]: row for row in before}
    by_priority = {each.priority: each for each in said}
    found: list[Row] = []
    for priority in sorted(by_priority)[:ROWS_MAX]:
        each = by_priority[priority]
        row: Row = {
            "priority": priority,
            "measured": each.measured,
            "window": min(each.measured, message.TO_TABLE_WINDOW),
            "p50Seconds": each.p50_seconds,
            "p95Seconds": each.p95_seconds,
        }
        same = {**known.get(priority, {}), **row} == known.get(priority)
        found.append({**row, "asOf": known[priority].get("asOf") or at if same else at})
    return found


def is_step(after: Iterable[Mapping[str, Any]], before: Iterable[Mapping[str, Any]]) -> bool:
    """A priority is measured for the first time, or a time changed considerably."""
    known = {row["priority"]: row for row in before}
    for row in after:
        standing = known.get(row["priority"])
        if standing is None or any(_is_far(row[key], standing[key]) for key in ("p50Seconds", "p95Seconds")):
            return True
    return False


def is_first(after: Iterable[Mapping[str, Any]], before: Iterable[Mapping[str, Any]]) -> bool:
    """A priority is measured for the first time."""
    return not {row["priority"] for row in after} <= {row["priority"] for row in before}


def rows_in(status: Status) -> list[Row]:
    """The valid rows in an EdgeNode, which may have been edited by hand."""
    found = status.get("toTable")
    return [row for row in found if _is_row(row)][:ROWS_MAX] if isinstance(found, list) else []


def _is_row(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and all(_is_number(row.get(key)) for key in _NUMBERS)
        and isinstance(row.get("asOf", ""), str)
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0


def _is_far(one: float, other: float) -> bool:
    shorter, longer = sorted((one, other))
    return longer - shorter >= STEP_SECONDS and longer >= STEP_FACTOR * shorter
