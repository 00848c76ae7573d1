"""Decides how large a batch may be for a target duration, and how its topics share it.

    seconds of a batch  =  fixed (planning, Spark's logs, the table's commit)  +  rows x seconds of work for a row

Messages that arrive during a batch wait for its end and for the whole next batch, so live messages are delayed by one
to two batches if another topic has a backlog. While there are both, batches are limited to the target duration, but
never to less than ``FIXED_TIMES_MIN`` times the fixed part, or a store with slow commits would do little else.

Topics share a batch equally at first; unused shares go to topics that have more. Otherwise one busy topic beside
ninety-nine quiet ones would be read a hundredth of a batch at a time, by one task, with all other cores idle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

# Rounds of distributing unused shares; after the third, hardly anything is left.
ROUNDS_MAX: Final = 3
# If less than an eighth of a batch is left, there is no further round.
_LEFT_PART: Final = 8

Limits = tuple[int | None, int | None]
"""Limits of rows and bytes; None for no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """A topic's part of the batch, and whether it has more messages."""

    rows: int
    size_bytes: int
    has_more: bool


def larger_limits(used: Mapping[str, Used], limit_rows: int | None, limit_bytes: int | None) -> dict[str, Limits]:
    """Larger limits for the topics that have more, if the batch has room; otherwise empty."""
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
    """Smaller limits for the topics that have more, if the planned batch is too large; otherwise empty."""
    with_more = [topic for topic, each in used.items() if each.has_more]
    if limit_rows is None or sum(each.rows for each in used.values()) <= limit_rows:
        return {}
    # The other topics keep their parts, so that they stay up to date.
    left = max(limit_rows - sum(each.rows for each in used.values() if not each.has_more), len(with_more))
    return {topic: (min(used[topic].rows, left // len(with_more)), used[topic].size_bytes) for topic in with_more}


def _left(limit: int | None, used: int) -> int | None:
    """What is left of a limit, None without one; 0 if it is not worth another request."""
    if limit is None:
        return None
    left = limit - used
    return left if left * _LEFT_PART >= limit else 0


# The limit before the first measurement: two cores take a quarter of a second to a second for it.
START_ROWS: Final = 50_000
# In smaller batches, rows are not what takes the time.
ROWS_MIN: Final = 1_000
# A batch takes at least this many times its fixed part, so that three quarters of the time are spent on rows.
FIXED_TIMES_MIN: Final = 4.0
# How much the limit may grow from one batch to the next; it may shrink without limit.
GROWTH_MAX: Final = 2.0
# Only batches that use at least this part of the limit are measured.
_FULL_PART: Final = 0.5
# A topic is live if it had messages within this time.
LIVE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTimes:
    """How long a batch took in total, and from the start of its first task to the end of its last one."""

    seconds: float
    work_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPace:
    """The current limit: a batch that should take ``seconds`` may have ``rows``."""

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
    """Whether some topics have a backlog while others are live and up to date.

    ``had_rows`` is when a batch last had rows of a topic, on the clock of ``now``.
    """
    is_any_live = any(
        not each.has_more and topic in had_rows and now - had_rows[topic] < LIVE_SECONDS for topic, each in used.items()
    )
    return is_any_live and any(each.has_more for each in used.values())


# The defaults of all limits.
# Messages of one batch, and the bytes of their payloads.
BATCH_ROWS: Final = 500_000
BATCH_BYTES: Final = 512 * 1024 * 1024
# How long a batch should take while there are live topics and a backlog.
BATCH_SECONDS: Final = 1.0
# Messages of one response of the service, and the bytes of their payloads.
PAGE_ROWS: Final = 10_000
PAGE_BYTES: Final = 8 * 1024 * 1024
# Smaller offset ranges do not get a task of their own.
SPLIT_BYTES: Final = 8 * 1024 * 1024
# How long to wait for the service's answer before it counts as unreachable.
REQUEST_SECONDS: Final = 30.0
# How long a transaction of a topic writer lives without renewal.
TRANSACTION_SECONDS: Final = 600.0
# How long a user's own query waits in the service if there is nothing to read.
WAIT_MS: Final = 1000
