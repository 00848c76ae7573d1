"""What SyncRules and EdgeRoutes are told in their status: who matched, what cannot be listed, who accepted.

Only the status subresource is written; their specs belong to their users.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead_hub.content import GroupKind
from fairlead_hub.objectsync import condition
from fairlead_hub.placement import Placement
from fairlead_wire import message

NODES_MAX = 10_000
ERRORS_MAX = 32
"""Errors of one node listed; the first ones are the ones to mend."""
ERROR_CHARS_MAX = 500


def of_rule(
    placement: Placement, name: str, before: list[dict[str, Any]], generation: int, now: str
) -> dict[str, Any] | None:
    """None when there is nothing to say yet."""
    broken = placement.broken.get(f"syncrules/{name}", "")
    rule = placement.rules.get(name)
    if rule is None and not broken:
        return None
    objects = (
        sum(
            1
            for kind in _kinds(placement, name)
            for live in placement.catalog.of_kind(kind).values()
            if any(entry.group_kind == kind and entry.covers(live) for entry in rule.entries)
        )
        if rule
        else 0
    )
    unlisted = [f"{kind[1]}: {placement.frozen[kind]}" for kind in _kinds(placement, name) if kind in placement.frozen]
    listed = all(kind in placement.synced for kind in _kinds(placement, name))
    why = "; ".join(unlisted)
    return {
        "observedGeneration": generation,
        "matchedNodes": len(placement.rule_nodes(name)),
        "matchedObjects": objects,
        "unlistedKinds": unlisted,
        "conditions": [
            condition("Accepted", not broken, "Invalid" if broken else "Accepted", broken, before, generation, now),
            condition("Listed", listed, "Unlistable" if unlisted else "Listed" if listed else "Listing", why, before,
                      generation, now),
        ],
    }  # fmt: skip


def _kinds(placement: Placement, name: str) -> list[GroupKind]:
    rule = placement.rules.get(name)
    return sorted({entry.group_kind for entry in rule.entries}) if rule is not None else []


def of_routes(
    placement: Placement,
    edges: Mapping[str, message.EdgeStatus],
    name: str,
    before: list[dict[str, Any]],
    generation: int,
    now: str,
) -> dict[str, Any] | None:
    """None when there is nothing to say yet."""
    broken = placement.broken.get(f"edgeroutes/{name}", "")
    routes = placement.routes.get(name)
    if routes is None and not broken:
        return None
    matched = sorted(n for n, labels in placement.nodes.items() if routes is not None and routes.nodes.matches(labels))
    reports = [(node, edges[node].routes[name]) for node in matched if node in edges and name in edges[node].routes]
    known = routes.route_names if routes is not None else frozenset()
    failed = [node for node, report in reports if report.errors]
    message_text = broken or (f"errors at {', '.join(failed[:5])}" if failed else "")
    accepted = not broken and not failed
    return {
        "observedGeneration": generation,
        "matchedNodes": len(matched),
        "acceptedNodes": len(reports) - len(failed),
        "nodes": [_node(node, report, known) for node, report in reports[:NODES_MAX]],
        "conditions": [
            condition("Accepted", accepted, "Accepted" if accepted else "Errors", message_text, before, generation, now)
        ],
    }


def _node(node: str, report: message.RoutesStatus, known: frozenset[str]) -> dict[str, Any]:
    """What one node says, as far as it can be true: a status is shared, and one node must not fill it."""
    return {
        "node": node,
        "resourceVersion": report.resource_version[: message.NAME_CHARS_MAX],
        "accepted": not report.errors,
        "acceptedRoutes": sorted(known.intersection(report.accepted)),
        "errors": [
            {
                "route": error.route[: message.NAME_CHARS_MAX],
                "message": error.message[:ERROR_CHARS_MAX],
                "line": error.line,
                "column": error.column,
                "endColumn": error.end_column,
            }
            for error in report.errors[:ERRORS_MAX]
        ],
    }
