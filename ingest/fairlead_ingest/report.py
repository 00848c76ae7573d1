"""One HTML page about tables, from facts alone; no script, no file beside it, readable without a network.

Bars are SVG drawn here: a page that is mailed or archived must still show them in ten years.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

BAR_WIDTH = 560
BAR_HEIGHT = 16
# More than this many bars tell nobody anything; the rest is summed up.
BARS_MAX = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """How long messages of one priority took, in seconds, from the edge to messaging and to the batch."""

    priority: int | None
    rows: int
    to_messaging: tuple[float, float, float]
    to_table: tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the page says about one table."""

    name: str
    table: str
    rows: int
    by_node: Sequence[tuple[str, int]] = ()
    by_hour: Sequence[tuple[str, int]] = ()
    by_priority: Sequence[tuple[str, int]] = ()
    delays: Sequence[Delay] = ()
    gaps: Sequence[Sequence[str]] = ()
    dead_letters: Sequence[tuple[str, int]] = ()


def page(tables: Sequence[Facts], now: datetime.datetime) -> str:
    """The whole page; every text from outside is escaped."""
    body = "\n".join(_table(facts) for facts in tables)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Fairlead ingest</title>\n'
        "<style>body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1c2b33}"
        "h2{margin-top:2.5rem}table{border-collapse:collapse}td,th{padding:.15rem .8rem .15rem 0;text-align:left}"
        "td.n{text-align:right;font-variant-numeric:tabular-nums}svg text{font:12px system-ui,sans-serif}"
        "</style></head>\n"
        f"<body><h1>Fairlead ingest</h1><p>As of {escape(now.isoformat(timespec='seconds'))}</p>\n"
        f"{body}\n</body></html>\n"
    )


def _table(facts: Facts) -> str:
    delays = [
        [
            "none" if delay.priority is None else str(delay.priority),
            f"{delay.rows:,}",
            *(f"{seconds:,.2f}" for seconds in (*delay.to_messaging, *delay.to_table)),
        ]
        for delay in facts.delays
    ]
    heads = ["priority", "rows", *(f"{to} {part} s" for to in ("messaging", "batch") for part in ("p50", "p95", "p99"))]
    parts = [
        f"<h2>{escape(facts.name)}</h2><p>{facts.rows:,} rows in {escape(facts.table)}</p>",
        _section("Rows by node", bars(facts.by_node)),
        _section("Rows by hour of publishing (UTC)", bars(facts.by_hour)),
        _section("Rows by priority", bars(facts.by_priority)),
        _section("Delay since the edge accepted a message", grid(heads, delays)),
        _section("Gaps", grid(["reason", "topic", "from", "to", "rows"], facts.gaps)),
        _section("Dead letters by error", bars(facts.dead_letters)),
    ]
    return "\n".join(parts)


def _section(title: str, content: str) -> str:
    return f"<h3>{escape(title)}</h3>\n{content or '<p>none</p>'}"


def bars(counts: Sequence[tuple[str, int]]) -> str:
    """Labelled bars, the longest as wide as ``BAR_WIDTH``; "" without any."""
    if not counts:
        return ""
    shown = list(counts[:BARS_MAX])
    if len(counts) > BARS_MAX:
        shown.append((f"{len(counts) - BARS_MAX} more", sum(count for _, count in counts[BARS_MAX:])))
    most = max(count for _, count in shown) or 1
    lines = []
    for index, (label, count) in enumerate(shown):
        top = index * (BAR_HEIGHT + 4)
        width = max(1, round(count / most * BAR_WIDTH))
        lines.append(
            f'<text x="172" y="{top + 12}" text-anchor="end">{escape(label[:28])}</text>'
            f'<rect x="180" y="{top}" width="{width}" height="{BAR_HEIGHT}" fill="#2a7f9e"/>'
            f'<text x="{186 + width}" y="{top + 12}">{count:,}</text>'
        )
    height = len(shown) * (BAR_HEIGHT + 4)
    return f'<svg width="{BAR_WIDTH + 280}" height="{height}" role="img">{"".join(lines)}</svg>'


def grid(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table of texts; "" without lines."""
    if not lines:
        return ""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in line)}</tr>" for line in lines)
    return f"<table><tr>{head}</tr>{body}</table>"
