"""Parts of the report page as HTML and SVG: sections, tables, bars, and plots of values over time.

Lines differ by colour and by dashes, so they can be read without colours. Each point shows its values on hover, and
marks show events. The page's style defines the colours for light and dark schemes. Texts are escaped here.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 240
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 10, 28
X_TICKS = 6
Y_TICKS = 4
MARKS_MAX = 100
SMALLEST = 0.001
"""Smaller positive values are not distinguished: less than a millisecond, less than four messages an hour."""
_STEPS_OF_TIME = (1, 5, 15, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86_400, 7 * 86_400, 30 * 86_400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line with a value at each second of the plot; None leaves a gap."""

    name: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotMark:
    """An event at ``seconds`` since 1970."""

    seconds: float
    text: str


def draw(
    title: str,
    seconds: Sequence[int],
    lines: Sequence[Line],
    *,
    shown: Callable[[float], str],
    marks: Sequence[PlotMark] = (),
    is_logarithmic: bool = False,
) -> str:
    """The plot and its legend, "" without values. ``shown`` formats a value.

    ``is_logarithmic`` is for delays, to show short ones beside long ones; zero is then at the bottom.
    """
    known = [value for line in lines for value in line.values if value is not None]
    if not known or not seconds:
        return ""
    # A plot of a single moment needs a width, too.
    times = _Scale(seconds[0], max(seconds[-1], seconds[0] + 1), LEFT, WIDTH - RIGHT)
    values = _logarithmic(known) if is_logarithmic else _linear(known)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">',
        *_axes(times, values, shown),
        *_marks(marks, times),
    ]
    for index, line in enumerate(lines):
        parts += _line(index, line, seconds, times, values)
    parts += _hover(seconds, lines, times, shown)
    parts.append("</svg>")
    legend = "".join(
        f'<li><svg class="key" viewBox="0 0 24 8" aria-hidden="true"><path class="l{index}" d="M0 4H24"/></svg>'
        f"{escape(line.name)}</li>"
        for index, line in enumerate(lines)
    )
    return f'{"".join(parts)}\n<ul class="legend">{legend}</ul>'


@dataclass(frozen=True, slots=True)
class _Scale:
    """Maps values to positions in the plot."""

    low: float
    high: float
    start: float
    end: float
    is_logarithmic: bool = False

    def at(self, value: float) -> float:
        low, high = self.low, self.high
        if self.is_logarithmic:
            low, high, value = math.log10(low), math.log10(high), math.log10(max(value, low))
        return round(self.start + (value - low) / (high - low) * (self.end - self.start), 1)


def _linear(known: Sequence[float]) -> _Scale:
    return _Scale(0.0, _nice(max(known)) or 1.0, HEIGHT - BOTTOM, TOP)


def _logarithmic(known: Sequence[float]) -> _Scale:
    positive = [max(value, SMALLEST) for value in known if value > 0] or [1.0]
    low = 10.0 ** math.floor(math.log10(min(positive)))
    high = 10.0 ** math.ceil(math.log10(max(positive)))
    return _Scale(low, high if high > low else low * 10, HEIGHT - BOTTOM, TOP, is_logarithmic=True)


def _nice(value: float) -> float:
    """Round up to 1, 2, 5, 10, 20, …"""
    if value < SMALLEST:
        return SMALLEST if value else 0.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 2, 5, 10) if power * step >= value * 0.999999)


def _y_ticks(values: _Scale) -> list[float]:
    if values.is_logarithmic:
        decades = round(math.log10(values.high / values.low))
        every = math.ceil(decades / 6)
        return [values.low * 10.0**power for power in range(0, decades + 1, every)]
    return [values.high * part / Y_TICKS for part in range(Y_TICKS + 1)]


def _x_ticks(times: _Scale) -> list[tuple[int, str]]:
    """The seconds of ticks with their labels, as short as the time span allows."""
    span = times.high - times.low
    step = next((each for each in _STEPS_OF_TIME if span / each <= X_TICKS), None)
    step = step or math.ceil(span / X_TICKS / _STEPS_OF_TIME[-1]) * _STEPS_OF_TIME[-1]
    form = "%H:%M:%S" if step < 60 else "%H:%M" if span <= 86_400 else "%d %b %H:%M" if step < 86_400 else "%d %b"
    if span > 300 * 86_400:
        form = "%d %b %Y"
    first = math.ceil(times.low / step) * step
    return [
        (second, datetime.datetime.fromtimestamp(second, datetime.UTC).strftime(form))
        for second in range(first, int(times.high) + 1, step)
    ]


def _axes(times: _Scale, values: _Scale, shown: Callable[[float], str]) -> Iterator[str]:
    for value in _y_ticks(values):
        y = values.at(value)
        yield f'<path class="grid" d="M{LEFT} {y}H{WIDTH - RIGHT}"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{escape(shown(value))}</text>'
    for second, text in _x_ticks(times):
        x = times.at(second)
        yield f'<path class="tick" d="M{x} {HEIGHT - BOTTOM}v5"/>'
        yield f'<text x="{x}" y="{HEIGHT - 8}" text-anchor="middle">{text}</text>'


def _marks(marks: Sequence[PlotMark], times: _Scale) -> Iterator[str]:
    inside = [mark for mark in marks if times.low <= mark.seconds <= times.high]
    for mark in inside[:MARKS_MAX]:
        x = times.at(mark.seconds)
        path = f'<path class="mark" d="M{x} {TOP}V{HEIGHT - BOTTOM}"/>'
        yield f"<g>{path}<title>{escape(mark.text)}</title></g>"


def _line(index: int, line: Line, seconds: Sequence[int], times: _Scale, values: _Scale) -> Iterator[str]:
    """The segments of a line between gaps; a single point is a dot."""
    stretch: list[str] = []
    for second, value in [*zip(seconds, line.values, strict=True), (0, None)]:
        if value is not None:
            stretch.append(f"{times.at(second)} {values.at(value)}")
        elif len(stretch) == 1:
            x, y = stretch.pop().split()
            yield f'<circle class="l{index}" cx="{x}" cy="{y}" r="2.5"/>'
        elif stretch:
            yield f'<path class="l{index}" d="M{"L".join(stretch)}"/>'
            stretch = []


def _hover(
    seconds: Sequence[int], lines: Sequence[Line], times: _Scale, shown: Callable[[float], str]
) -> Iterator[str]:
    """Invisible columns with the values of each moment as their tooltips."""
    if len(seconds) < 2:
        return
    width = round((times.end - times.start) / (len(seconds) - 1), 1)
    for index, second in enumerate(seconds):
        moment = datetime.datetime.fromtimestamp(second, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
        said = [f"{line.name}: {shown(value)}" for line in lines if (value := line.values[index]) is not None] or [
            "nothing"
        ]
        x = round(times.at(second) - width / 2, 1)
        box = f'<rect class="hover" x="{x}" y="{TOP}" width="{width}" height="{HEIGHT - BOTTOM - TOP}"/>'
        yield f"<g>{box}<title>{moment} UTC\n{escape(chr(10).join(said))}</title></g>"


BAR_WIDTH = 560
BAR_HEIGHT = 16
# How many bars are shown; the rest is summed up.
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
    """Labelled bars, the longest ``BAR_WIDTH`` wide, and their total; "" without any.

    If there are too many, the first are shown, or with ``is_over_time`` the last, which are the newest.
    """
    if not counts:
        return ""
    shown = list(counts[-BARS_MAX:] if is_over_time else counts[:BARS_MAX])
    # The sum of the rest does not scale the other bars; its own bar is clipped.
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
    """A table of texts, "" without lines."""
    if not lines:
        return ""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in line)}</tr>" for line in lines)
    return _wide(f"<table><tr>{head}</tr>{body}</table>")


def _wide(table: str) -> str:
    """A table that scrolls on a small screen, also with the keyboard."""
    return f'<div class="wide" tabindex="0" role="group" aria-label="table">{table}</div>'
