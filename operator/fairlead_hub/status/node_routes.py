"""A node's result for one EdgeRoutes object: a row of EdgeNode ``status.routes``.

    the node's report, or its EdgeNode ─▶ Outcome (accepted, refused, lagging) ─▶ row

The size of a row is bounded whatever a node reports.  For a node that is away the row stays as last written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from fairlead_hub.cluster import sync_rule
from fairlead_wire import message

State = Literal["Accepted", "Refused", "Lagging"]

ROWS_MAX = 64
"""EdgeRoutes objects listed per node."""
ERRORS_MAX = 32
"""Errors, and warnings, listed per object; the first ones are the ones to fix."""
MESSAGE_CHARS_MAX = 500
NAMES_MAX = 128
"""Routes in force listed by name."""
TEXT_BYTES_MAX = 256 * 1024
"""Names and messages in one node's rows: together with the rest, an EdgeNode has to fit into etcd (1.5 MiB)."""


class RouteOutcome(msgspec.Struct, frozen=True):
    """The outcome of an object at a node it selects."""

    state: State
    why: str = ""
    """Why it lags."""
    warned: bool = False


ACCEPTED = RouteOutcome("Accepted")
WARNED = RouteOutcome("Accepted", warned=True)
REFUSED = RouteOutcome("Refused")
REFUSED_AND_WARNED = RouteOutcome("Refused", warned=True)


def judged(errors: object, warnings: object) -> RouteOutcome:
    """The outcome at a node that reported on the newest version."""
    if errors:
        return REFUSED_AND_WARNED if warnings else REFUSED
    return WARNED if warnings else ACCEPTED


def standing(status: Mapping[str, Any]) -> dict[str, tuple[Any, Any, RouteOutcome]]:
    """By object, from an EdgeNode: UID and generation that the node evaluated, and the outcome."""
    return {
        name: (row.get("uid"), row.get("observedGeneration"), judged(row.get("errors"), row.get("warnings")))
        for name, row in rows_in(status).items()
    }


def row_of(routes: sync_rule.Routes, said: message.RoutesStatus, outcome: RouteOutcome) -> dict[str, Any]:
    """From a node's report; if it lags, the report is about an older version."""
    row: dict[str, Any] = {
        "name": routes.name,
        "uid": routes.uid,
        "resourceVersion": said.resource_version[: message.NAME_CHARS_MAX],
        "state": outcome.state,
        "acceptedRoutes": sorted(routes.route_names.intersection(said.accepted))[:NAMES_MAX],
    }
    if outcome.state != "Lagging":
        row["observedGeneration"] = routes.generation
    if outcome.why:
        row["message"] = outcome.why[:MESSAGE_CHARS_MAX]
    if said.errors:
        row["errors"] = _mistakes(said.errors)
    if said.warnings:
        row["warnings"] = _mistakes(said.warnings)
    return row


def lagging_row(routes: sync_rule.Routes, before: Mapping[str, Any] | None, outcome: RouteOutcome) -> dict[str, Any]:
    """For a node that has not reported yet in this session: ``before`` is its current row."""
    same = before is not None and before.get("uid") == routes.uid
    row = dict(before) if before is not None and same else {"name": routes.name, "uid": routes.uid}
    return {**row, "state": outcome.state, "message": outcome.why[:MESSAGE_CHARS_MAX]}


def bounded(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many as fit, by name; the first one that does not fit loses its lists."""
    found: list[dict[str, Any]] = []
    room = TEXT_BYTES_MAX
    for row in sorted(rows, key=lambda each: str(each.get("name")))[:ROWS_MAX]:
        room -= len(str(row).encode())
        found.append(row if room >= 0 else {key: row[key] for key in row.keys() - {"acceptedRoutes", "warnings"}})
        if room < 0:
            found[-1]["errors"] = list(row.get("errors") or ())[:1]
    return found


def rows_in(status: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """By object: the rows in an EdgeNode, which may have been edited by hand."""
    rows = status.get("routes")
    if not isinstance(rows, list):
        return {}
    return {row["name"]: row for row in rows if isinstance(row, dict) and isinstance(row.get("name"), str)}


def _mistakes(found: Sequence[message.RouteError]) -> list[dict[str, Any]]:
    return [
        {
            "route": each.route[: message.NAME_CHARS_MAX],
            "message": each.message[:MESSAGE_CHARS_MAX],
            "line": each.line,
            "column": each.column,
            "endColumn": each.end_column,
        }
        for each in found[:ERRORS_MAX]
    ]
