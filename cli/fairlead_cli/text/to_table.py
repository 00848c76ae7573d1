"""How long messages of a node take to a table, in a line for people."""

from __future__ import annotations

from typing import Any

from fairlead_cli.text import durations

DEFAULT_PRIORITY_SHOWN = "default"


def line(measured: dict[str, Any]) -> str:
    """Of one priority, as agents and hubs say it."""
    half, most = durations.span(measured["p50Seconds"]), durations.span(measured["p95Seconds"])
    priority, count = priority_shown(measured["priority"]), measured["measured"]
    return f"to table  priority {priority}: half within {half}, 95 % within {most}; {count} measured"


def priority_shown(priority: int) -> int | str:
    """The one of routes that name none is a number behind all that can be named."""
    from fairlead_wire.validation.route_manifest import DEFAULT_PRIORITY

    return DEFAULT_PRIORITY_SHOWN if priority == DEFAULT_PRIORITY else priority
