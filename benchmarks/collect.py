"""Collect what the benchmark modules measure into one list with a row for every goal.

    benchmarks/*/bench_*.py ──rows()──► collect ──► one table on standard output, bench.json beside the README

A module exposes `ROOM` (one of goals.ROOMS) and `rows()`, an iterable of Row that may yield while it measures.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TypedDict

from benchmarks.goals import GOALS, ROOMS

FOLDER = Path(__file__).resolve().parent


class Row(TypedDict):
    """One figure. `value` is None when it was not measured; `ratio` is value ÷ baseline, or what the goal compares."""

    name: str
    value: float | None
    unit: str
    goal: str
    met: bool
    baseline: float | None
    ratio: float | None


class BadRow(ValueError):
    """A benchmark module broke the agreement above; the text says where."""


def modules(folder: Path = FOLDER) -> list[str]:
    """The importable names of every benchmark module, room by room in alphabetical order."""
    return [f"benchmarks.{path.parent.name}.{path.stem}" for path in sorted(folder.glob("*/bench_*.py"))]


def checked(row: Row, origin: str) -> Row:
    """The row itself when it is complete; raises BadRow otherwise."""
    missing = Row.__required_keys__ - row.keys()
    if missing:
        raise BadRow(f"{origin}: a row lacks {', '.join(sorted(missing))}")
    return row


def unmeasured(name: str, goal: str) -> Row:
    """The row of a goal that this run has no figure for."""
    return Row(name=name, value=None, unit="", goal=goal, met=False, baseline=None, ratio=None)


def collect(
    only: str | None,
    names: Sequence[str],
    progress: Callable[[str], None],
    load: Callable[[str], ModuleType] = importlib.import_module,
) -> list[Row]:
    """Run the modules of `only` (None: all rooms) and return the measured rows, then the goals without a figure.

    A module that fails is reported through `progress` with its traceback and costs its own rows, never the run's.
    """
    rows: list[Row] = []
    for name in names:
        try:
            module = load(name)
            if only is not None and only != module.ROOM:
                continue
            progress(f"{name} …")
            produced: Iterable[Row] = module.rows()
            for row in produced:
                if checked(row, name)["name"] in {each["name"] for each in rows}:
                    progress(f"  {row['name']} was measured before; the first figure stands")
                    continue
                rows.append(row)
                progress(f"  {sentence(row)}")
        except Exception:  # noqa: BLE001 - one broken benchmark must not hide what the others measured
            progress(f"{name} failed, its goals count as not met:\n{traceback.format_exc()}")
    measured = {row["name"] for row in rows}
    for room in ROOMS:
        if only in (None, room):
            rows.extend(unmeasured(name, goal) for name, goal in GOALS[room].items() if name not in measured)
    return rows


def number(value: float | None) -> str:
    """A figure for people: three significant digits, thousands separated, "–" for none."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def sentence(row: Row) -> str:
    """One row in one line."""
    return f"{row['name']}: {number(row['value'])} {row['unit']}, {'met' if row['met'] else 'not met'}"


def table(rows: Sequence[Row]) -> str:
    """All rows as an aligned text table."""
    head = ("name", "value", "unit", "baseline", "ratio", "met", "goal")
    lines = [
        head,
        *(
            (
                row["name"],
                number(row["value"]),
                row["unit"],
                number(row["baseline"]),
                number(row["ratio"]),
                "yes" if row["met"] else "no",
                row["goal"],
            )
            for row in rows
        ),
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
