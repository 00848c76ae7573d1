"""How large a batch may be, so that it takes about so many seconds: as fast as rows went lately.

    seconds of a batch  =  fixed (planning, Spark's logs, the table's commit)  +  rows x seconds of work for a row

What arrives while a batch is at work waits for its end, and then for the whole next batch: live messages beside a
backlog are as late as one to two batches are long. So while both are there, batches are held to the seconds asked for;
but never to less than ``FIXED_TIMES_MIN`` times what is fixed, or a store with slow commits would do little else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from fairlead_ingest.source.batch_shares import Used

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
