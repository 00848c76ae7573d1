"""How old messages were when their row became visible, as counts in fixed buckets.

Counts add up, over tasks, batches and jobs, which percentiles do not: tasks count, the commit carries the sums, and
metrics and reports read them from there. Ages are seconds from ``enqueued_at`` at the edge to the commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

# Upper bounds in seconds; one more bucket holds what is older.
BUCKETS = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0, 86400.0)


def add(counts: Iterable[Sequence[int]]) -> list[int]:
    """The sum of several histograms."""
    total = [0] * (len(BUCKETS) + 1)
    for one in counts:
        for index, count in enumerate(one):
            total[index] += count
    return total


def quantile(counts: Sequence[int], fraction: float) -> float | None:
    """The bound below which ``fraction`` of the messages lie; None without messages, inf past the last bound."""
    wanted, seen = sum(counts) * fraction, 0
    if not sum(counts):
        return None
    for bound, count in zip((*BUCKETS, float("inf")), counts, strict=True):
        seen += count
        if seen >= wanted:
            return bound
    return float("inf")
