"""The page of traces, and the traces on a node's page."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from fairlead_hub.console import sections, traces
from fairlead_hub.console.html import Html, join, tag
from fairlead_hub.console.sections import HOME
from fairlead_hub.console.traces import KeptTraces, ShownTrace, SpanLine

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


def page(kept: KeptTraces, search: str) -> Sequence[Html]:
    """The parts of the page."""
    found = traces.grouped(kept.lines, search)
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
    return tag("a", code, href=traces.address(link, trace_id), rel="noopener noreferrer")


def _find(trace_id: str) -> Html:
    return tag("a", tag("code", trace_id), href=f"{HOME}traces?{urlencode({'q': trace_id})}")


def _outcome(line: SpanLine) -> Html:
    return tag("span", line.failure, class_="warn") if line.failure else tag("span", "ok", class_="dim")


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:,.1f}"


def of_node(kept: KeptTraces, node: str) -> Html:
    """The latest spans about one node."""
    found = traces.of_node(kept.lines, node, NODE_SPANS_SHOWN)
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
