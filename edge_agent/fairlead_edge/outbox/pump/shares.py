"""Parts of the line for those that would otherwise wait: each less urgent priority gets at least its share.

Whenever bytes leave because they are the most urgent, every less urgent priority that waits and could go earns so much
that its share of the whole comes out; one that has earned a batch sends it before the most urgent goes on.  Earnings
are kept no longer than the priority waits, and no more than ``EARNED_BYTES_MAX``, so that an alarm never stands behind
a long run of telemetry.

Pure arithmetic, in bytes on the line.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

FLOOR_SHARE_MAX: Final = 0.5
EARNED_BYTES_MAX: Final = 64 * 1024


class Shares:
    """``floor_share`` 0: strictly the most urgent first."""

    def __init__(self, floor_share: float = 0.0) -> None:
        self._floor = floor_share
        self._earned: dict[int, float] = {}
        """By priority, while it waits; below 0 after a message that was larger than what it had earned."""

    @property
    def counts(self) -> bool:
        """Shares are given at all."""
        return self._floor > 0

    def due(self, batch_bytes: int) -> list[int]:
        """Priorities that have earned a batch of this size, those that earned most first."""
        if not self._earned:
            return []
        enough = min(batch_bytes, EARNED_BYTES_MAX)
        found = [priority for priority, earned in self._earned.items() if earned >= enough]
        return sorted(found, key=lambda priority: (-self._earned[priority], priority))

    def left(self, priority: int, size: int, waiting: Collection[int]) -> None:
        """So many bytes of this priority left; ``waiting``: all that could go or could have gone."""
        if not self._floor:
            return
        if any(other < priority for other in waiting):  # it was due, and pays
            self._earned[priority] = self._earned.get(priority, 0.0) - size
            return
        passed_over = [other for other in waiting if other > priority]
        share = min(self._floor, 1 / (len(passed_over) + 1))
        each = size * share / (1 - share * len(passed_over))
        self._earned = {other: min(EARNED_BYTES_MAX, self._earned.get(other, 0.0) + each) for other in passed_over}
