"""The latest spans of this hub, grouped by trace, and how pages show them: each trace a small tree, the newest first.

    SpanLine, SpanLine, … ─matching(search)─▶ grouped ─▶ ShownTrace(spans with their depth) ─▶ traces_page, node_traces

A parent that another program recorded, or that was dropped, is missing here: its children are shown at the top.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from fairlead_hub.console import sections
from fairlead_hub.console.html import Html, join, tag
from fairlead_hub.console.sections import HOME
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


def spans_of_node(lines: Iterable[SpanLine], node: str, limit: int) -> list[SpanLine]:
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


# ---- on pages ------------------------------------------------------------------------------------


TRACES_SHOWN = 50
NODE_SPANS_SHOWN = 10
LINKED_SHOWN = 4
DEPTH_MAX = 4
"""Deeper spans are not indented further."""
HEAD = (
    ("What", ""),
    ("Node", ""),
    ("Object or topic", "wide"),
    ("Begins after, ms", "n"),
    ("Takes, ms", "n"),
    ("Outcome", ""),
)
NODE_HEAD = (
    ("What", ""),
    ("When", ""),
    ("Object or topic", "wide"),
    ("Takes, ms", "n"),
    ("Outcome", ""),
    ("Trace", ""),
)


def traces_page(kept: KeptTraces, search: str) -> Sequence[Html]:
    """The parts of the page."""
    found = grouped(kept.lines, search)
    shown = found[:TRACES_SHOWN]
    form = sections.filter_form("traces", search, "trace id, node, object", f"{len(shown)} of {len(found)} traces")
    parts = [form, *(_panel(each, kept.link) for each in shown)]
    if not found:
        nothing = "No trace that is kept here has this." if search else "No span was recorded since this hub started."
        parts.append(sections.panel("no-traces", "Traces", sections.nothing(nothing)))
    hint = "The latest spans of this hub, the newest trace first; reload for newer ones. "
    return [*parts, tag("p", hint, "Spans of agents, messaging and ingest are in your trace backend.", class_="hint")]


def _panel(shown: ShownTrace, link: str) -> Html:
    rows = [
        (
            tag("span", line.name, class_=f"depth-{min(depth, DEPTH_MAX)}"),
            sections.node_link(line.node) if line.node else "–",
            line.subject or "–",
            _milliseconds(line.at - shown.at),
            _milliseconds(line.seconds),
            _outcome(line),
        )
        for depth, line in shown.spans
    ]
    linked: list[object] = [join(" ", _find(each)) for each in shown.linked[:LINKED_SHOWN]]
    if more := len(shown.linked) - LINKED_SHOWN:
        linked.append(f" and {more} more" if more > 0 else "")
    return sections.panel(
        f"trace-{shown.trace_id}",
        _id(shown.trace_id, link),
        sections.table(f"Spans of trace {shown.trace_id}", HEAD, rows),
        tag("p", "Linked with", linked, class_="hint") if shown.linked else None,
        hint=join(sections.moment(shown.at), f" · {_milliseconds(shown.seconds)} ms"),
    )


def _id(trace_id: str, link: str) -> Html:
    code = tag("code", trace_id, class_="trace-id")
    if not link:
        return code
    return tag("a", code, href=address(link, trace_id), rel="noopener noreferrer")


def _find(trace_id: str) -> Html:
    return tag("a", tag("code", trace_id), href=f"{HOME}traces?{urlencode({'q': trace_id})}")


def _outcome(line: SpanLine) -> Html:
    return tag("span", line.failure, class_="warn") if line.failure else tag("span", "ok", class_="dim")


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:,.1f}"


def node_traces(kept: KeptTraces, node: str) -> Html:
    """The latest spans about one node."""
    found = spans_of_node(kept.lines, node, NODE_SPANS_SHOWN)
    rows = [
        (
            line.name,
            sections.moment(line.at),
            line.subject or "–",
            _milliseconds(line.seconds),
            _outcome(line),
            _find(line.trace_id),
        )
        for line in found
    ]
    nothing = sections.nothing("No span about this node is among the latest ones.")
    body = sections.table("Latest spans of this node", NODE_HEAD, rows) if rows else nothing
    return sections.panel("node-traces", "Latest traces", body, hint=tag("a", "All traces", href=f"{HOME}traces"))
