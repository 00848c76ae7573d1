"""How large a batch may be, so that it takes about the wanted number of seconds, and how its topics share it.

    seconds of a batch  =  fixed (planning, Spark's logs, the table's commit)  +  rows x seconds of work for a row

Messages that arrive while a batch is at work wait for its end, and then for the whole next batch: live messages beside
a backlog are as late as one to two batches are long. So while there are both, batches are held to the seconds asked
for, but never to less than ``FIXED_TIMES_MIN`` times the fixed part, or a store with slow commits would do little else.

Topics share a batch equally at first; what some leave unused goes to those that have more. Otherwise one busy topic
beside ninety-nine quiet ones would be read a hundredth of a batch at a time, by one task, with all other cores idle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

# A round asks the service once for each topic that has more; by the third, next to nothing is left.
ROUNDS_MAX: Final = 3
# Less than an eighth of a batch left is not worth another round.
_LEFT_PART: Final = 8

Limits = tuple[int | None, int | None]
"""Rows and bytes; None: as much as there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What a topic takes of the batch, and whether it has more than it was allowed."""

    rows: int
    size_bytes: int
    has_more: bool


def larger_limits(used: Mapping[str, Used], limit_rows: int | None, limit_bytes: int | None) -> dict[str, Limits]:
    """For the topics that have more, while the batch has room; empty where it has none."""
    with_more = [topic for topic, each in used.items() if each.has_more]
    rows = _left(limit_rows, sum(each.rows for each in used.values()))
    size = _left(limit_bytes, sum(each.size_bytes for each in used.values()))
    if not with_more or rows == 0 or size == 0:
        return {}
    return {
        topic: (
            None if rows is None else used[topic].rows + rows // len(with_more),
            None if size is None else used[topic].size_bytes + size // len(with_more),
        )
        for topic in with_more
    }


def smaller_limits(used: Mapping[str, Used], limit_rows: int | None) -> dict[str, Limits]:
    """For the topics that have more, where the batch is to be smaller than it was planned; else empty."""
    with_more = [topic for topic, each in used.items() if each.has_more]
    if limit_rows is None or sum(each.rows for each in used.values()) <= limit_rows:
        return {}
    # The others keep what they took: a topic that is up to date stays so.
    left = max(limit_rows - sum(each.rows for each in used.values() if not each.has_more), len(with_more))
    return {topic: (min(used[topic].rows, left // len(with_more)), used[topic].size_bytes) for topic in with_more}


def _left(limit: int | None, used: int) -> int | None:
    """None without a limit; 0 where it is not worth asking."""
    if limit is None:
        return None
    left = limit - used
    return left if left * _LEFT_PART >= limit else 0


# Before anything was measured: what two cores do in a quarter of a second to a second.
START_ROWS: Final = 50_000
# Below this the work is not in the rows.
ROWS_MIN: Final = 1_000
# A batch is at least this many times as long as what is fixed of it: three quarters of the time go into rows.
FIXED_TIMES_MIN: Final = 4.0
# From one batch to the next; it shrinks at once.
GROWTH_MAX: Final = 2.0
# A batch smaller than this part of what it could be says little about large ones.
_FULL_PART: Final = 0.5
# A topic is live as long as its latest messages are no older: programs wait for its rows.
LIVE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTimes:
    """How long a batch took in all, and its tasks, from the first one's begin to the last one's end."""

    seconds: float
    work_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPace:
    """``rows`` are what a batch of ``seconds`` may have now."""

    seconds: float
    rows: int

    def after(self, rows: int, times: BatchTimes) -> BatchPace:
        """The pace after a batch of ``rows`` took ``times``."""
        if rows < max(ROWS_MIN, self.rows * _FULL_PART):
            return self
        work = max(times.work_seconds, 0.001)
        fixed = max(0.0, times.seconds - work)
        wanted = max(self.seconds, FIXED_TIMES_MIN * fixed)
        fitting = rows * (wanted - fixed) / work
        return replace(self, rows=int(max(ROWS_MIN, min(fitting, self.rows * GROWTH_MAX))))


def is_live_beside_backlog(used: Mapping[str, Used], had_rows: Mapping[str, float], now: float) -> bool:
    """Some topics have more than a batch takes while others, that are live, are up to date.

    ``had_rows``: when a batch last had rows of a topic, by the clock of ``now``.
    """
    is_any_live = any(
        not each.has_more and topic in had_rows and now - had_rows[topic] < LIVE_SECONDS for topic, each in used.items()
    )
    return is_any_live and any(each.has_more for each in used.values())


# Defaults of all limits on how much is read at once; each is written here and nowhere else.
# Messages of one batch, and their payloads together.
BATCH_ROWS: Final = 500_000
BATCH_BYTES: Final = 512 * 1024 * 1024
# How long a batch should take while live topics wait beside a backlog.
BATCH_SECONDS: Final = 1.0
# Messages of one answer of the service, and their payloads together.
PAGE_ROWS: Final = 10_000
PAGE_BYTES: Final = 8 * 1024 * 1024
# An offset range smaller than this is not worth a task of its own.
SPLIT_BYTES: Final = 8 * 1024 * 1024
# How long one request to a silent service may take before it counts as down.
REQUEST_SECONDS: Final = 30.0
# How long a transaction that is written into a topic lives while no task renews it.
TRANSACTION_SECONDS: Final = 600.0
# How long a query of a user's own waits in the service while there is nothing to read.
WAIT_MS: Final = 1000
