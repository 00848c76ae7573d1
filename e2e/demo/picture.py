"""The chart of a run: what was delivered when, with a panel for each node and priority.

Three curves each: accepted at the edge, durable in its topic, a row in the table. The cut is shaded, kills are lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from e2e.demo.count import Accepted, Row
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

DOTS_PER_INCH = 110


@dataclass(frozen=True, kw_only=True)
class Mark:
    """An event at one node, or at all if `node` is empty: from `start` to `end` (Unix seconds)."""

    text: str
    node: str
    start: float
    end: float


def cumulative(times: Sequence[float], begin: float) -> tuple[list[float], list[int]]:
    """Seconds since `begin`, ascending, and the count at each."""
    ordered = sorted(time - begin for time in times)
    return ordered, list(range(1, len(ordered) + 1))


def draw(path: Path, accepted: Sequence[Accepted], rows: Sequence[Row], marks: Sequence[Mark], begin: float) -> None:
    """Write the PNG."""
    figure = figure_of(accepted, rows, marks, begin)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DOTS_PER_INCH)
    plt.close(figure)


def figure_of(accepted: Sequence[Accepted], rows: Sequence[Row], marks: Sequence[Mark], begin: float) -> Figure:
    """The figure, not yet written; the caller closes it."""
    nodes = sorted({each.node for each in accepted})
    priorities = sorted({each.priority for each in accepted})
    figure, grid = plt.subplots(
        len(priorities), len(nodes), figsize=(5 * len(nodes), 3.4 * len(priorities)), sharex=True, squeeze=False
    )
    for line, priority in enumerate(priorities):
        for column, node in enumerate(nodes):
            axes = grid[line][column]
            mine = [row for row in rows if row.node == node and row.priority == priority]
            curves = {
                "accepted at the edge": [e.at for e in accepted if e.node == node and e.priority == priority],
                "durable in its topic": [row.published for row in mine],
                "a row in the table": [row.ingested for row in mine],
            }
            _panel(axes, curves, [mark for mark in marks if mark.node in ("", node)], begin)
            heading = f"{node}, priority {priority}{' (alarms)' if priority == 0 else ' (telemetry)'}"
            axes.set_title(heading, fontsize=10, loc="right")
            if line == len(priorities) - 1:
                axes.set_xlabel("seconds")
            if column == 0:
                axes.set_ylabel("messages")
    figure.suptitle("Fairlead demo: what was delivered when", x=0.01, horizontalalignment="left")
    figure.tight_layout()
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="upper right", ncols=3, fontsize=8)
    return figure


def _panel(axes: Axes, curves: dict[str, list[float]], marks: Sequence[Mark], begin: float) -> None:
    for label, style in zip(curves, ("--", "-", ":"), strict=True):
        seconds, counts = cumulative(curves[label], begin)
        axes.step(seconds, counts, style, where="post", label=label, linewidth=1.6)
    for mark in marks:
        if mark.end > mark.start:
            axes.axvspan(mark.start - begin, mark.end - begin, color="tab:red", alpha=0.08)
        else:
            axes.axvline(mark.start - begin, color="tab:red", linewidth=0.8)
    # Above the curves, a line of text for each mark: labels at their places would lie on each other and on the curves.
    axes.set_title("\n".join(legend(marks, begin)), fontsize=7, loc="left", color="tab:red")
    axes.grid(visible=True, alpha=0.3)


def legend(marks: Sequence[Mark], begin: float) -> list[str]:
    """What happened and when, in order."""
    lines = []
    for mark in sorted(marks, key=lambda mark: mark.start):
        start, end = mark.start - begin, mark.end - begin
        lines.append(f"{start:.0f} to {end:.0f} s: {mark.text}" if end > start else f"{start:.0f} s: {mark.text}")
    return lines
