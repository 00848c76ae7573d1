"""Values over time as a picture: SVG with axes, drawn here.

Lines differ by colour and by dashes, so that colours are not needed to read them; each point says its values when it is
pointed at, and a mark stands where something happened. Colours come from the page's style, for both schemes.
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
"""Values between this and zero are of no interest: less than a millisecond, less than four messages an hour."""
_STEPS_OF_TIME = (1, 5, 15, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86_400, 7 * 86_400, 30 * 86_400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """``values`` stand at the seconds of the picture; None: a hole."""

    name: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotMark:
    """Something that happened, at seconds since 1970."""

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
    """The picture and its legend; "" without values. ``shown``: a value as text.

    ``is_logarithmic`` is for delays, of which the short ones matter beside the long; zero lies at the bottom then.
    """
    known = [value for line in lines for value in line.values if value is not None]
    if not known or not seconds:
        return ""
    # A picture of one moment has a width all the same.
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
    """From values to places in the picture."""

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
    """The next of 1, 2, 5, 10, 20, … that is not below."""
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
    """Seconds and what is written below them: no more of the moment than tells it from the others."""
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
    """Stretches between holes; a point alone is a dot."""
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
    """Invisible columns, each with what its moment says."""
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
