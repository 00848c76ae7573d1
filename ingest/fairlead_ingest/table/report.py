"""One HTML page about tables, from facts alone; no script, no file beside it, readable without a network.

Bars are SVG drawn here: a page that is mailed or archived must still show them in ten years.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

BAR_WIDTH = 560
BAR_HEIGHT = 16
# Of dead letters that an older version wrote, which had no codes.
UNKNOWN = "unknown"
EXAMPLE_CHARS_MAX = 200
# More bars than this are of no use to a reader; the rest is summed up.
BARS_MAX = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """How long messages of one priority took, in seconds, from the edge to messaging and to the batch."""

    priority: int | None
    rows: int
    to_messaging: tuple[float, float, float]
    to_table: tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """How many dead letters have one code and are about the same fields; ``example``: the error of one of them."""

    code: str
    fields: tuple[str, ...] = ()
    rows: int
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the page says about one table."""

    name: str
    table: str
    rows: int
    # As `status` says it: seconds for half, and for 95 %, of what the last commits brought; None: unknown.
    fresh: tuple[float | str | None, float | str | None] = (None, None)
    by_node: Sequence[tuple[str, int]] = ()
    by_hour: Sequence[tuple[str, int]] = ()
    by_priority: Sequence[tuple[str, int]] = ()
    delays: Sequence[Delay] = ()
    gaps: Sequence[Sequence[str]] = ()
    dead_letters: Sequence[DeadLetters] = ()


def page(tables: Sequence[Facts], now: datetime.datetime) -> str:
    """The whole page; every text from outside is escaped."""
    body = "\n".join(_table(facts) for facts in tables)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Fairlead ingest</title>\n'
        "<style>body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1c2b33}"
        "h2{margin-top:2.5rem}table{border-collapse:collapse}td,th{padding:.15rem .8rem .15rem 0;text-align:left}"
        "td.n{text-align:right;font-variant-numeric:tabular-nums}td{overflow-wrap:anywhere}"
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
        f"<h2>{escape(facts.name)}</h2><p>{facts.rows:,} rows in {escape(facts.table)}; {_fresh(facts.fresh)}</p>",
        _section("Rows by node", bars(facts.by_node)),
        _section("Rows by hour of publishing (UTC)", bars(facts.by_hour)),
        _section("Rows by priority", bars(facts.by_priority)),
        _section(
            "Delay since the edge accepted a message, to messaging and to the start of the batch", grid(heads, delays)
        ),
        _section("Gaps", grid(["reason", "topic", "from", "to", "rows"], facts.gaps)),
        _section(
            "Dead letters by code and field", grid(["code", "field", "rows", "example"], by_field(facts.dead_letters))
        ),
    ]
    return "\n".join(parts)


def _fresh(seconds: tuple[float | str | None, float | str | None]) -> str:
    half, most = ("unknown" if each is None else f"{each} s" for each in seconds)
    return escape(f"fresh within {half} (half), {most} (95 %) over the last commits")


def _section(title: str, content: str) -> str:
    return f"<h3>{escape(title)}</h3>\n{content or '<p>none</p>'}"


def bars(counts: Sequence[tuple[str, int]]) -> str:
    """Labelled bars, the longest as wide as ``BAR_WIDTH``, and their sum; "" without any.  Labels are whole."""
    if not counts:
        return ""
    shown = list(counts[:BARS_MAX])
    if len(counts) > BARS_MAX:
        shown.append((f"{len(counts) - BARS_MAX} more", sum(count for _, count in counts[BARS_MAX:])))
    most = max(count for _, count in shown) or 1
    lines = []
    for label, count in shown:
        width = max(1, round(count / most * BAR_WIDTH))
        size = f'width="{width}" height="{BAR_HEIGHT}"'
        bar = f'<svg {size}><rect {size} fill="#2a7f9e"/></svg>'
        lines.append(f'<tr><td>{escape(label)}</td><td class="n">{count:,}</td><td>{bar}</td></tr>')
    total = f'<tr><td>in all</td><td class="n">{sum(count for _, count in counts):,}</td><td></td></tr>'
    return f"<table>{''.join(lines)}{total}</table>"


def by_field(dead_letters: Sequence[DeadLetters]) -> list[list[str]]:
    """By code and field, the most frequent first, then what was left out, then the sum.

    A row counts at each field it names.
    """
    found: Counter[tuple[str, str]] = Counter()
    examples: dict[tuple[str, str], str] = {}
    for each in dead_letters:
        for name in each.fields or ("",):
            found[each.code, name] += each.rows
            examples.setdefault((each.code, name), each.example[:EXAMPLE_CHARS_MAX])
    kinds = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    lines = [[code, name, f"{rows:,}", examples[code, name]] for (code, name), rows in kinds[:BARS_MAX]]
    if len(kinds) > BARS_MAX:
        lines.append([f"{len(kinds) - BARS_MAX} more kinds", "", f"{sum(rows for _, rows in kinds[BARS_MAX:]):,}", ""])
    if lines:
        lines.append(["dead letters in all", "", f"{sum(each.rows for each in dead_letters):,}", ""])
    return lines


def grid(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table of texts; "" without lines."""
    if not lines:
        return ""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in line)}</tr>" for line in lines)
    return f"<table><tr>{head}</tr>{body}</table>"
