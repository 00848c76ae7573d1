"""How long messages of a node take to a table, in words for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairlead_wire import durations

DEFAULT_PRIORITY_SHOWN = "default"
NOT_MEASURED = "-"


def line(measured: dict[str, Any]) -> str:
    """Of one priority, as agents and hubs say it."""
    priority = priority_shown(measured["priority"])
    half, most = _spans(measured)
    as_of = f", as of {measured['asOf']}" if measured.get("asOf") else ""
    return f"to table  priority {priority}: half within {half}, 95 % within {most}; {_count(measured)}{as_of}"


def cell(found: Sequence[dict[str, Any]]) -> str:
    """Of all priorities: median and 95th percentile, in one word: "0:0.4s/1.2s,default:12s/3min20s"."""
    cells = (f"{priority_shown(each['priority'])}:{'/'.join(_spans(each))}" for each in found)
    return ",".join(cells).replace(" ", "") or NOT_MEASURED


def priority_shown(priority: int) -> int | str:
    """The one of routes that name none is a number behind all that can be named."""
    from fairlead_wire.validation.route_manifest import DEFAULT_PRIORITY

    return DEFAULT_PRIORITY_SHOWN if priority == DEFAULT_PRIORITY else priority


def _spans(measured: dict[str, Any]) -> tuple[str, str]:
    return durations.span(measured["p50Seconds"]), durations.span(measured["p95Seconds"])


def _count(measured: dict[str, Any]) -> str:
    from fairlead_wire import message

    every = measured["measured"]
    window = measured.get("window", min(every, message.TO_TABLE_WINDOW))
    return f"{every} measured" if window >= every else f"the latest {window} of {every} measured"
