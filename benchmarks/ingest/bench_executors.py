"""in.executors: rows a second by executors, for `make bench`; all of it: `python -m benchmarks.ingest.executors`."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.collect import Row
from benchmarks.goals import GOALS
from benchmarks.ingest import executors

ROOM = "ingest"
NAME = "in.executors"
# Of the ideal, as many times one executor as there are.
PART = 0.75


def rows() -> Iterator[Row]:
    """One row: the most executors against one, in one run."""
    runs = executors.measure()
    first, last = runs[0], runs[-1]
    if first is last:
        return
    parts = executors.parts_of(runs)
    ratio = last.rate / first.rate
    between = "".join(f"; {run.executors}: {run.rate:,.0f}" for run in runs[1:-1])
    unit = (
        f"rows/s, {last.executors} executors of {last.core_share:g} core, baseline one{between};"
        f" model: 8 cores {parts.rate(8, executors.BATCH_ROWS):,.0f},"
        f" 16 cores {parts.rate(16, executors.BATCH_ROWS):,.0f}, messaging {parts.messaging_rate:,.0f}"
    )
    met = ratio >= PART * last.executors
    yield Row(name=NAME, value=last.rate, unit=unit, goal=GOALS[ROOM][NAME], met=met, baseline=first.rate, ratio=ratio)
