"""Parts of the page: sections, tables, bars, and its style for both colour schemes. Texts are escaped here."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

BAR_WIDTH = 560
BAR_HEIGHT = 16
# More bars than this are of no use to a reader; the rest is summed up.
BARS_MAX = 48
STYLE = """
:root{color-scheme:light dark;--ink:#1c2b33;--soft:#5b6b73;--line:#d5dde1;--paper:#fff;--bar:#2a7f9e;
--l0:#0b6e8f;--l1:#b4500a;--l2:#7a2e8e;--mark:#c02020}
@media (prefers-color-scheme:dark){:root{--ink:#e4ecf0;--soft:#a3b2ba;--line:#3a474e;--paper:#14191c;--bar:#4da3c2;
--l0:#5bc0e0;--l1:#f2a25c;--l2:#d59be6;--mark:#ff8080}}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:var(--ink);
background:var(--paper)}
h2{margin-top:2.5rem;border-top:1px solid var(--line);padding-top:1.5rem}h3{margin:1.8rem 0 .3rem}
.wide{overflow-x:auto}table{border-collapse:collapse}td,th{padding:.15rem .8rem .15rem 0;text-align:left}
td.n{text-align:right;font-variant-numeric:tabular-nums}td{overflow-wrap:anywhere}th{color:var(--soft);font-weight:600}
svg[role=img]{width:100%;height:auto;font:11px system-ui,sans-serif;fill:var(--soft)}
svg path{fill:none;stroke-width:1.6}svg .grid,svg .tick{stroke:var(--line);stroke-width:1}
svg path.l0{stroke:var(--l0)}svg path.l1{stroke:var(--l1);stroke-dasharray:6 3}svg path.l2{stroke:var(--l2);
stroke-dasharray:2 3}svg circle.l0{fill:var(--l0)}svg circle.l1{fill:var(--l1)}svg circle.l2{fill:var(--l2)}
svg .mark{stroke:var(--mark);stroke-width:2}svg .hover{fill:transparent}svg g:hover .hover{fill:var(--l0);opacity:.15}
svg .bar{fill:var(--bar)}.legend{list-style:none;margin:0;padding:0;display:flex;flex-wrap:wrap;gap:0 1.2rem}
.key{width:24px;height:8px;margin-right:.4rem;vertical-align:middle}.note{color:var(--soft)}
"""


def section(title: str, content: str, note: str = "") -> str:
    explained = f'<p class="note">{escape(note)}</p>' if note and content else ""
    return f"<h3>{escape(title)}</h3>\n{explained}{content or '<p>none</p>'}"


def bars(counts: Sequence[tuple[str, int]], *, is_over_time: bool = False) -> str:
    """Labelled bars, the longest as wide as ``BAR_WIDTH``, and their sum; "" without any.  Labels are whole.

    Of many the first are shown; ``is_over_time``: the last, which are the newest.
    """
    if not counts:
        return ""
    shown = list(counts[-BARS_MAX:] if is_over_time else counts[:BARS_MAX])
    # The sum of all others would leave those that are shown no length: its bar is no longer than theirs.
    most = max(count for _, count in shown) or 1
    if len(counts) > BARS_MAX:
        others = len(counts) - BARS_MAX
        rest = sum(count for _, count in counts) - sum(count for _, count in shown)
        shown.insert(0 if is_over_time else BARS_MAX, (f"{others} {'earlier' if is_over_time else 'more'}", rest))
    lines = []
    for label, count in shown:
        width = min(BAR_WIDTH, max(1, round(count / most * BAR_WIDTH))) if count else 0
        size = f'width="{width}" height="{BAR_HEIGHT}"'
        bar = f'<svg {size} aria-hidden="true"><rect class="bar" {size}/></svg>'
        lines.append(f'<tr><td>{escape(label)}</td><td class="n">{count:,}</td><td>{bar}</td></tr>')
    total = f'<tr><td>in all</td><td class="n">{sum(count for _, count in counts):,}</td><td></td></tr>'
    return _wide(f"<table>{''.join(lines)}{total}</table>")


def grid(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table of texts; "" without lines."""
    if not lines:
        return ""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in line)}</tr>" for line in lines)
    return _wide(f"<table><tr>{head}</tr>{body}</table>")


def _wide(table: str) -> str:
    """May be wider than a small screen; the keyboard reaches it then."""
    return f'<div class="wide" tabindex="0" role="group" aria-label="table">{table}</div>'
