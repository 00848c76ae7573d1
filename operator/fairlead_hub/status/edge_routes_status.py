"""What an EdgeRoutes object is told in its status: which nodes accepted it, what they refused, who lags behind.

    what each node said (``Heard``) + the status as it stands ─of_routes─▶ rows, counts, conditions, one sentence

A status is shared by all nodes, and what a node says is bounded before it gets there.  A node that is away keeps the
row it had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from fairlead_hub.cluster import deletion_blocked, sync_rule
from fairlead_hub.cluster.placement import Placement
from fairlead_hub.status.object_sync import condition
from fairlead_hub.status.rule_status import MESSAGE_CHARS_MAX, conditions_of
from fairlead_wire import message

NODES_MAX = 10_000
LAGGING_MAX = 50
"""Nodes listed that never said anything of the object; ``laggingNodes`` counts them all."""
ERRORS_MAX = 32
"""Errors, and warnings, of one node listed; the first ones are the ones to mend."""
ERROR_CHARS_MAX = 500
TOLD_MAX = 5
"""Mistakes, and nodes, named in one sentence."""

_EMPTY: dict[str, Any] = {"accepted": False, "acceptedRoutes": [], "errors": []}


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What one node said of the object, and why that is not about its newest version; "" when it is."""

    said: message.RoutesStatus | None = None
    lag: str = ""
    away: bool = False


def of_routes(
    placement: Placement,
    heard: Callable[[str], Heard],
    name: str,
    before: Mapping[str, Any],
    generation: int,
    now: str,
) -> dict[str, Any] | None:
    """``before`` is the status as it stands.  None when there is nothing to say yet."""
    broken = placement.broken.get(f"edgeroutes/{name}", "")
    routes = placement.routes.get(name)
    if routes is None and not broken:
        return None
    if broken:
        broken = f"{broken}; {deletion_blocked.ROUTES_CONSEQUENCE}"
    matched = sorted(n for n, labels in placement.nodes.items() if routes is not None and routes.nodes.matches(labels))
    rows, lagging = _rows(matched, heard, before, routes) if routes is not None else ([], [])
    accepted = [row for row in rows if row["accepted"] and not row.get("lagging")]
    errors = broken or _summary(rows, "errors")
    warnings = _summary(rows, "warnings")
    behind = _joined([f"{node}: {why}" for node, why in lagging[:TOLD_MAX]], len(lagging))
    conditions = conditions_of(before)
    return {
        "observedGeneration": generation,
        "matchedNodes": len(matched),
        "acceptedNodes": len(accepted),
        "laggingNodes": len(lagging),
        "nodes": rows[:NODES_MAX],
        "message": "; ".join(
            filter(None, (errors, warnings and f"warnings: {warnings}", behind and f"not current: {behind}"))
        )[:MESSAGE_CHARS_MAX],
        "conditions": [
            condition("Accepted", not errors, "Invalid" if broken else "Errors" if errors else "Accepted", errors,
                      conditions, generation, now),
            condition("Warned", bool(warnings), "Warnings" if warnings else "NoWarnings", warnings, conditions,
                      generation, now),
            condition("Current", not lagging, "Lagging" if lagging else "Current", behind, conditions, generation,
                      now),
        ],
    }  # fmt: skip


def _rows(
    matched: Sequence[str], heard: Callable[[str], Heard], before: Mapping[str, Any], routes: sync_rule.Routes
) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """A row for each node that ever said something, and who lags, and why."""
    stood = before.get("nodes")
    stood = [row for row in stood if isinstance(row, dict)] if isinstance(stood, list) else []
    known = {row.get("node"): row for row in stood}
    rows, lagging, silent = [], [], 0
    for node in matched:
        told = heard(node)
        if told.said is not None and not told.lag:
            rows.append(_row(node, told.said, routes))
            continue
        row = known.get(node)
        # What is known of a node that is away stays true as long as nothing changed since.
        if row is not None and told.away and row.get("observedGeneration") == routes.generation:
            rows.append(_current(row))
            continue
        lagging.append((node, told.lag))
        if row is None:
            silent += 1
            if silent > LAGGING_MAX:
                continue
            row = {"node": node}
        rows.append({**_EMPTY, **row, "lagging": True, "message": told.lag[:ERROR_CHARS_MAX]})
    return rows, lagging


def _current(row: dict[str, Any]) -> dict[str, Any]:
    return {**_EMPTY, **{key: value for key, value in row.items() if key not in ("lagging", "message")}}


def _row(node: str, report: message.RoutesStatus, routes: sync_rule.Routes) -> dict[str, Any]:
    """What one node says, as far as it can be true: one node must not fill a status that is shared."""
    row = {
        "node": node,
        "resourceVersion": report.resource_version[: message.NAME_CHARS_MAX],
        "observedGeneration": routes.generation,
        "accepted": not report.errors,
        "acceptedRoutes": sorted(routes.route_names.intersection(report.accepted)),
        "errors": _mistakes(report.errors),
    }
    if report.warnings:
        row["warnings"] = _mistakes(report.warnings)
    return row


def _mistakes(found: Sequence[message.RouteError]) -> list[dict[str, Any]]:
    return [
        {
            "route": each.route[: message.NAME_CHARS_MAX],
            "message": each.message[:ERROR_CHARS_MAX],
            "line": each.line,
            "column": each.column,
            "endColumn": each.end_column,
        }
        for each in found[:ERRORS_MAX]
    ]


def _summary(rows: Iterable[dict[str, Any]], field: str) -> str:
    """Each mistake once, with the nodes that found it."""
    nodes_of: dict[str, list[str]] = {}
    for row in rows:
        for each in row.get(field) or ():
            place = f" (line {each['line']}, column {each['column']})" if each.get("endColumn", 1) > 1 else ""
            text = f"{each.get('route') or 'manifest'}: {each.get('message', '')}{place}"
            nodes_of.setdefault(text, []).append(str(row["node"]))
    told = [f"{text} [{_joined(nodes[:TOLD_MAX], len(nodes))}]" for text, nodes in list(nodes_of.items())[:TOLD_MAX]]
    return _joined(told, len(nodes_of), "; ")


def _joined(some: Sequence[str], total: int, between: str = ", ") -> str:
    more = f" and {total - len(some)} more" if total > len(some) else ""
    return between.join(some) + more
