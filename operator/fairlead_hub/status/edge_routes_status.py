"""The status of an EdgeRoutes object across all nodes: counts, and the first nodes where not all of it runs.

    the outcome at each node (``RouteOutcomes``) + the current status ─of_routes─▶ counts, rows, conditions

Its size is bounded for any number of nodes.  The full result of a node is in that node's EdgeNode.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from fairlead_hub.cluster import deletion_blocked
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.cluster.sync_rule import SpecCheck
from fairlead_hub.status.object_sync import condition
from fairlead_hub.status.sync_rule_status import MESSAGE_CHARS_MAX, conditions_of, no_node, valid

FAILING_MAX = 50
"""Nodes listed; the counts include all."""
ERRORS_MAX = 3
"""Errors listed per node; its EdgeNode has more."""
LISTED_MAX = 5
"""Mistakes, and nodes, named in one sentence."""
ONLY_THE_FORM = "; whether its routes are in force: condition Accepted"
ALL_REPORTED = (
    "every node that it selects has reported on this version; nodes that refuse some of it: condition Accepted"
)
INPUTS = frozenset(("nodes", "edgenodes"))
"""What has to be listed before counts are written."""


class RouteOutcomes(Protocol):
    """The outcome of one EdgeRoutes object at the nodes it selects."""

    @property
    def selected(self) -> int: ...

    @property
    def refused(self) -> int: ...

    @property
    def lagging(self) -> int: ...

    def first_refused(self, limit: int) -> Sequence[Mapping[str, Any]]:
        """Rows as in EdgeNode, with ``node``, sorted by node."""

    def first_warned(self, limit: int) -> Sequence[Mapping[str, Any]]: ...

    def first_lagging(self, limit: int) -> Sequence[tuple[str, str]]:
        """Nodes that do not run the newest version, and why."""


def of_routes(
    placement: Placement,
    outcomes: RouteOutcomes | None,
    name: str,
    before: Mapping[str, Any],
    generation: int,
    now: str,
    check: SpecCheck | None = None,
) -> dict[str, Any] | None:
    """``before`` is the current status.  Returns None if there is nothing to write yet."""
    broken = placement.rules.broken.get(f"edgeroutes/{name}", "")
    if broken:
        broken = f"{broken}; {deletion_blocked.ROUTES_CONSEQUENCE}"
    elif outcomes is None or not placement.listed.inputs >= INPUTS:
        return None
    selected, refused, lagging = (
        (outcomes.selected, outcomes.refused, outcomes.lagging) if outcomes is not None else (0, 0, 0)
    )
    refusing = outcomes.first_refused(FAILING_MAX) if outcomes is not None else ()
    late = outcomes.first_lagging(FAILING_MAX) if outcomes is not None else ()
    errors = broken or _summary(refusing, "errors", refused)
    warnings = _summary(outcomes.first_warned(FAILING_MAX), "warnings", 0) if outcomes is not None else ""
    behind = _joined([f"{node}: {why}" for node, why in late[:LISTED_MAX]], lagging)
    current = ALL_REPORTED if selected and not lagging else behind
    nowhere = "" if broken else no_node(selected)
    conditions = conditions_of(before)
    return {
        "observedGeneration": generation,
        "matchedNodes": selected,
        "acceptedNodes": selected - refused - lagging,
        "refusedNodes": refused,
        "laggingNodes": lagging,
        "failingNodes": [*map(_refusing, refusing), *map(_late, late)][:FAILING_MAX],
        "message": "; ".join(
            filter(None, (nowhere, errors, warnings and f"warnings: {warnings}", behind and f"not current: {behind}"))
        )[:MESSAGE_CHARS_MAX],
        "conditions": [
            condition("Accepted", not errors, "Invalid" if broken else "Errors" if errors else "Accepted", errors,
                      conditions, generation, now),
            condition("Warned", bool(warnings), "Warnings" if warnings else "NoWarnings", warnings, conditions,
                      generation, now),
            condition("Current", not lagging, "Lagging" if lagging else "Current", current, conditions, generation,
                      now),
            *valid(check, conditions, generation, now, ONLY_THE_FORM),
        ],
    }  # fmt: skip


def _refusing(row: Mapping[str, Any]) -> dict[str, Any]:
    errors = row.get("errors") or []
    return {"node": row["node"], "state": "Refused", "errors": errors[:ERRORS_MAX]}


def _late(found: tuple[str, str]) -> dict[str, Any]:
    return {"node": found[0], "state": "Lagging", "message": found[1]}


def _summary(rows: Iterable[Mapping[str, Any]], field: str, total: int) -> str:
    """Each mistake once, with the nodes that reported it; ``total`` is the number of nodes that reported any."""
    nodes_of: dict[str, list[str]] = {}
    count = 0
    for row in rows:
        count += 1
        for each in row.get(field) or ():
            place = f" (line {each['line']}, column {each['column']})" if each.get("endColumn", 1) > 1 else ""
            text = f"{each.get('route') or 'manifest'}: {each.get('message', '')}{place}"
            nodes_of.setdefault(text, []).append(str(row["node"]))
    listed = list(nodes_of.items())[:LISTED_MAX]
    said = [f"{text} [{_joined(nodes[:LISTED_MAX], len(nodes))}]" for text, nodes in listed]
    more = f"; {total - count} more nodes refuse some of it" if total > count else ""
    return _joined(said, len(nodes_of), "; ") + more


def _joined(some: Sequence[str], total: int, between: str = ", ") -> str:
    more = f" and {total - len(some)} more" if total > len(some) else ""
    return between.join(some) + more
