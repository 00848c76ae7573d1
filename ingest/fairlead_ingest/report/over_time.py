"""Counts messages and their delays by time: published, ingested, waiting, and how long it took.

    arrived, taken     messages by when they were published (``_published_at``) and read (``_ingested_at``)
    delayed            for the messages published in a step, counts of their delays from the device to the batch

Counting starts with steps of a second; if there are too many, they are joined, so memory is bounded. A plot has at most
``POINTS_MAX`` points, and steps are joined again for it.

Delays are counted in buckets, since counts can be added over files and days, unlike percentiles. There are twenty
buckets for each power of ten from a millisecond to a year, so a quantile is accurate to within 12 %.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

PER_DECADE = 20
SECONDS_MIN = 0.001
SECONDS_MAX = 366 * 86_400.0
_LOWEST = math.floor(math.log10(SECONDS_MIN) * PER_DECADE)

Delays = Counter[int]
"""Messages by bucket."""
POINTS_MAX = 240
KEPT_MAX = 20_000
"""The largest number of steps before they are joined."""
STEPS = (1, 5, 15, 60, 300, 900, 3600, 6 * 3600, 86_400, 7 * 86_400)
"""Widths of a step in seconds, each a multiple of the previous one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One step of a plot, which begins ``seconds`` after 1970.

    ``arrived`` and ``taken`` are messages a second; ``waiting`` is the number published but not in the table at the end
    of the step. Delays are in seconds, None if nothing was published.
    """

    seconds: int
    arrived: float
    taken: float
    waiting: int
    p50: float | None
    p95: float | None
    p99: float | None


class OverTime:
    """Counts messages by time. Not thread-safe."""

    def __init__(self) -> None:
        self.step = STEPS[0]
        self._arrived: Counter[int] = Counter()
        self._taken: Counter[int] = Counter()
        self._delayed: dict[int, Delays] = {}

    def add_arrived(self, counts: Iterable[tuple[int, int]]) -> None:
        """Add (second since 1970, messages published in it)."""
        self._add(self._arrived, counts)

    def add_taken(self, counts: Iterable[tuple[int, int]]) -> None:
        """Add (second since 1970, messages read in it)."""
        self._add(self._taken, counts)

    def add_delayed(self, counts: Iterable[tuple[int, int, int]]) -> None:
        """Add (second since 1970 of publishing, bucket of the delay, messages)."""
        for second, bucket, count in counts:
            at = second // self.step * self.step
            self._delayed.setdefault(at, Counter())[bucket] += count

    def by_hour(self) -> list[tuple[int, int]]:
        """(second at which an hour begins, messages published in it), oldest first; steps are longer over years."""
        return sorted(_joined(self._arrived, max(self.step, 3600)).items())

    def points(self) -> list[Point]:
        """All steps from the first to the last one with a message, oldest first."""
        known = [*self._arrived, *self._taken]
        if not known:
            return []
        first, last = min(known), max(known)
        width = next((step for step in STEPS if step >= self.step and (last - first) / step < POINTS_MAX - 1), None)
        if width is None:
            width = math.ceil((last - first) / (POINTS_MAX - 1) / STEPS[-1]) * STEPS[-1]
        arrived, taken = _joined(self._arrived, width), _joined(self._taken, width)
        delayed: dict[int, Delays] = defaultdict(Counter)
        for at, found in self._delayed.items():
            delayed[at // width * width].update(found)
        made, waiting = [], 0
        for at in range(first // width * width, last + 1, width):
            waiting += arrived[at] - taken[at]
            half, most, nearly_all = (quantile(delayed.get(at, {}), part) for part in (0.5, 0.95, 0.99))
            made.append(
                Point(
                    seconds=at,
                    arrived=arrived[at] / width,
                    taken=taken[at] / width,
                    waiting=max(0, waiting),
                    p50=half,
                    p95=most,
                    p99=nearly_all,
                )
            )
        return made

    def _add(self, kept: Counter[int], counts: Iterable[tuple[int, int]]) -> None:
        for second, count in counts:
            kept[second // self.step * self.step] += count
        while len(kept) > KEPT_MAX and self.step < STEPS[-1]:
            self.step = STEPS[STEPS.index(self.step) + 1]
            for each in (self._arrived, self._taken):
                joined = _joined(each, self.step)
                each.clear()
                each.update(joined)
            delayed = list(self._delayed.items())
            self._delayed.clear()
            for at, found in delayed:
                self._delayed.setdefault(at // self.step * self.step, Counter()).update(found)


def _joined(counts: Mapping[int, int], width: int) -> Counter[int]:
    joined: Counter[int] = Counter()
    for at, count in counts.items():
        joined[at // width * width] += count
    return joined


def delay_buckets(micros: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """The bucket of each delay in microseconds; the lowest for less than a millisecond, or negative (clocks differ)."""
    # Unsafe, because a clock that is centuries behind gives numbers that a float cannot hold to the microsecond.
    seconds = pc.divide(pc.cast(micros, pa.float64(), safe=False), 1_000_000.0)
    bounded = pc.min_element_wise(pc.max_element_wise(seconds, SECONDS_MIN), SECONDS_MAX)
    return pc.cast(pc.floor(pc.multiply(pc.log10(bounded), float(PER_DECADE))), pa.int32())


def quantile(counts: Mapping[int, int], fraction: float) -> float | None:
    """The quantile in seconds, as the upper bound of its bucket; 0 in the lowest bucket, None without messages."""
    total = sum(counts.values())
    if not total:
        return None
    wanted, seen, last = total * fraction, 0, 0
    for bucket in sorted(counts):
        seen, last = seen + counts[bucket], bucket
        if seen >= wanted:
            break
    return 0.0 if last <= _LOWEST else 10.0 ** ((last + 1) / PER_DECADE)
