"""Parts of the line for those that would otherwise wait.

Whenever bytes leave because they are the most urgent, every less urgent queue that waits and could go earns so much
that its share of the whole comes out; one that has earned a batch sends it before the most urgent goes on.  Earnings
are kept no longer than it waits, and are bounded, so that an alarm never stands behind a long run of telemetry.

``floor_share``       each less urgent priority gets at least this part of the line
``live_first_share``  of what a priority gets, its live lane gets this part and the rest of it the other

Queues are named by ``queue_id.rank``: the live lane of a priority is even, the rest of it the next number.  Pure
arithmetic, in bytes on the line.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

FLOOR_SHARE_MAX: Final = 0.5
LIVE_FIRST_SHARE_MAX: Final = 0.9
"""What waits for longest gets a tenth at least."""
EARNED_BYTES_MAX: Final = 64 * 1024


class Shares:
    """Both 0: strictly the most urgent first."""

    def __init__(self, floor_share: float = 0.0, live_first_share: float = 0.0) -> None:
        self._floor = floor_share
        self._live = live_first_share
        self._earned: dict[int, float] = {}
        """By rank, while it waits; below 0 after a message that was larger than what it had earned."""

    @property
    def counts(self) -> bool:
        """Shares are given at all."""
        return self._floor > 0 or self._live > 0

    def due(self, batch_bytes: int) -> list[int]:
        """Ranks that have earned a batch of this size, those that earned most first."""
        if not self._earned:
            return []
        enough = min(batch_bytes, EARNED_BYTES_MAX)
        found = [rank for rank, earned in self._earned.items() if earned >= enough]
        return sorted(found, key=lambda rank: (-self._earned[rank], rank))

    def left(self, rank: int, size: int, waiting: Collection[int]) -> None:
        """So many bytes of this rank left; ``waiting``: all that could go or could have gone."""
        if not self.counts:
            return
        if any(other < rank for other in waiting):  # it was due, and pays
            self._earned[rank] = self._earned.get(rank, 0.0) - size
            return
        earned: dict[int, float] = {}
        rest_of_it = rank + 1 if rank % 2 == 0 else None
        if self._live and rest_of_it in waiting:
            assert rest_of_it is not None
            part = (1 - self._live) / self._live
            most = EARNED_BYTES_MAX * max(1.0, part)
            earned[rest_of_it] = min(most, self._earned.get(rest_of_it, 0.0) + size * part)
            size = int(size / self._live)  # of the priority as a whole
        passed_over = [other for other in waiting if other > rank and other not in earned]
        if self._floor:
            share = min(self._floor, 1 / (len(passed_over) + 1))
            each = size * share / (1 - share * len(passed_over))
            for other in passed_over:
                earned[other] = min(EARNED_BYTES_MAX, self._earned.get(other, 0.0) + each)
        self._earned = earned
