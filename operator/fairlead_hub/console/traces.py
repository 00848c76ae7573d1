"""The latest spans of this hub, grouped by trace: each trace a small tree, the newest first.

    SpanLine, SpanLine, … ─matching(search)─▶ grouped ─▶ ShownTrace(spans with their depth)

A parent that another program recorded, or that was dropped, is missing here: its children are shown at the top.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fairlead_wire.traces import trace

TRACE_ID = "{trace_id}"
"""Placeholder for the trace id in ``[traces] link``."""


class SpanLine(NamedTuple):
    """A finished span."""

    trace_id: str
    span_id: str
    parent_id: str
    """Empty if it started its trace."""
    linked: tuple[str, ...]
    """Ids of linked traces."""
    name: str
    node: str
    subject: str
    """The object's path, the topic, or the stream."""
    at: float
    """When it began, in seconds since 1970."""
    seconds: float
    failure: str
    """Empty if it succeeded."""


class KeptTraces(NamedTuple):
    """What the pages show about traces."""

    lines: tuple[SpanLine, ...]
    """Newest first."""
    link: str = ""
    """Address of a trace in a backend, with ``{trace_id}``; may be empty."""


class ShownTrace(NamedTuple):
    """The spans of one trace, each below its parent."""

    trace_id: str
    at: float
    seconds: float
    spans: tuple[tuple[int, SpanLine], ...]
    """With their depth."""
    linked: tuple[str, ...]


def address(link: str, trace_id: str) -> str:
    """Address of this trace in the user's backend; empty if there is none."""
    return link.replace(TRACE_ID, trace_id)


def of_node(lines: Iterable[SpanLine], node: str, limit: int) -> list[SpanLine]:
    found = [line for line in lines if line.node == node]
    return found[:limit]


def grouped(lines: Iterable[SpanLine], search: str) -> list[ShownTrace]:
    """``lines`` are newest first.

    ``search``: each word occurs in the trace; a ``traceparent`` stands for its trace id.
    """
    groups: dict[str, list[SpanLine]] = defaultdict(list)
    for line in lines:
        groups[line.trace_id].append(line)
    words = [found.trace_id if (found := trace.parse(word)) else word for word in search.lower().split()]
    return [_shown(spans) for spans in groups.values() if _has(spans, words)]


def _has(spans: Sequence[SpanLine], words: Sequence[str]) -> bool:
    parts = [part for each in spans for part in (each.trace_id, *each.linked, each.name, each.node, each.subject)]
    where = "\n".join(parts).lower()
    return all(word in where for word in words)


def _shown(spans: Sequence[SpanLine]) -> ShownTrace:
    ordered = sorted(spans, key=lambda line: (line.at, -line.seconds))
    known = {line.span_id for line in ordered}
    below: dict[str, list[SpanLine]] = defaultdict(list)
    for line in ordered:
        below[line.parent_id if line.parent_id in known else ""].append(line)
    rows: list[tuple[int, SpanLine]] = []
    waiting = [(0, line) for line in reversed(below.pop("", []))]
    while waiting:
        depth, line = waiting.pop()
        rows.append((depth, line))
        waiting += [(depth + 1, child) for child in reversed(below.pop(line.span_id, []))]
    # A span that is its own ancestor cannot be recorded; if one were, it would still be shown.
    rows += [(0, line) for left in below.values() for line in left]
    at = ordered[0].at
    ends = max(line.at + line.seconds for line in ordered)
    linked = dict.fromkeys(each for line in ordered for each in line.linked)
    return ShownTrace(ordered[0].trace_id, at, ends - at, tuple(rows), tuple(linked))
