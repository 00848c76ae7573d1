"""What more executors give: a model of one batch, from parts that were measured.

    batch = serial + rows × (executor µs) ÷ executors        and never faster than messaging hands out rows

`serial` is what no executor does: planning, Spark's logs, starting tasks, the commit. Nothing here measures anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run: how many executors, each with `core_share` of a core; seconds and rows of a batch in the mean."""

    executors: int
    core_share: float
    batch_seconds: float
    batch_rows: float


@dataclass(frozen=True, kw_only=True)
class Parts:
    """`serial_seconds` of a batch; CPU of a row in the executors and in messaging, in microseconds."""

    serial_seconds: float
    executor_micros: float
    messaging_micros: float

    def rate(self, cores: float, batch_rows: float) -> float:
        """Rows a second with so many executors' cores."""
        seconds = self.serial_seconds + batch_rows * self.executor_micros / 1e6 / cores
        return min(batch_rows / seconds, self.messaging_rate)

    @property
    def messaging_rate(self) -> float:
        """Rows a second that one messaging service hands out: it is one process."""
        return 1e6 / self.messaging_micros

    def cores_useful(self, batch_rows: float) -> float:
        """From so many on messaging is the limit, or half of each batch is serial, whichever comes first."""
        work = batch_rows * self.executor_micros / 1e6
        left = batch_rows / self.messaging_rate - self.serial_seconds
        return min(work / self.serial_seconds, work / left if left > 0 else float("inf"))


def fitted(runs: Sequence[Measured], messaging_micros: float) -> Parts:
    """The straight line through the runs: seconds of a batch over its rows ÷ cores, by least squares.

    Raises ``ValueError`` for fewer than two different numbers of cores.
    """
    xs = [run.batch_rows / (run.executors * run.core_share) for run in runs]
    ys = [run.batch_seconds for run in runs]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    if not spread:
        raise ValueError("a line needs runs with different numbers of executors")
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
    return Parts(
        serial_seconds=max(mean_y - slope * mean_x, 0.001),
        executor_micros=slope * 1e6,
        messaging_micros=messaging_micros,
    )
