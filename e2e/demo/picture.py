"""The picture of a run: what was delivered when, a panel for each node and priority.

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

DOTS_PER_INCH = 110


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Something that happened to one node, or to all when `node` is empty: from `start` to `end` (Unix seconds)."""

    text: str
    node: str
    start: float
    end: float


def cumulative(times: Sequence[float], begin: float) -> tuple[list[float], list[int]]:
    """Seconds since `begin`, ascending, and how many there were by then."""
    ordered = sorted(time - begin for time in times)
    return ordered, list(range(1, len(ordered) + 1))


def draw(path: Path, accepted: Sequence[Accepted], rows: Sequence[Row], marks: Sequence[Mark], begin: float) -> None:
    """Write the PNG."""
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
            axes.set_title(f"{node}, priority {priority}{' (alarms)' if priority == 0 else ' (telemetry)'}")
            if line == len(priorities) - 1:
                axes.set_xlabel("seconds")
            if column == 0:
                axes.set_ylabel("messages")
    grid[0][0].legend(loc="upper left", fontsize=8)
    figure.suptitle("Fairlead demo: what was delivered when")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DOTS_PER_INCH)
    plt.close(figure)


def _panel(axes: Axes, curves: dict[str, list[float]], marks: Sequence[Mark], begin: float) -> None:
    for label, style in zip(curves, ("--", "-", ":"), strict=True):
        seconds, counts = cumulative(curves[label], begin)
        axes.step(seconds, counts, style, where="post", label=label, linewidth=1.6)
    for mark in marks:
        if mark.end > mark.start:
            axes.axvspan(mark.start - begin, mark.end - begin, color="tab:red", alpha=0.08)
        else:
            axes.axvline(mark.start - begin, color="tab:red", linewidth=0.8)
        axes.text(
            mark.start - begin, 0.98, f" {mark.text}", transform=axes.get_xaxis_transform(), fontsize=7, rotation=90,
            verticalalignment="top",
        )  # fmt: skip
    axes.grid(visible=True, alpha=0.3)
