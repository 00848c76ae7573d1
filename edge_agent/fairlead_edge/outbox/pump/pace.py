"""Pacing and fair shares of the link: how much may be in flight, and whose turn it is.

``Pace`` limits the unanswered bytes to about what the link carried lately, so that nothing urgent waits long.

What has left cannot be recalled: on a line of 16 kB/s a window of 256 KiB is sixteen seconds in which no alarm
gets through.  So the bytes in flight are held to what was acknowledged in the last ``LATELY_SECONDS``, and a little
more, by which a faster line shows itself: twice as much with each answer at first.

    limit = SPARE_BYTES + bytes acknowledged in the last (LATELY_SECONDS + delay + held) seconds

``delay`` is the shortest time a batch of this session took on its way, so that a long way is filled; ``held`` is how
long the hub had the last batch before it answered, so that a slow messaging service is not taken for a slow line.  A
hub that does not say how long gets ``UNKNOWN_HELD_SECONDS``.

``Shares`` gives parts of the line to queues that would otherwise starve.

Bytes are those of the packed frame.  Pure: times are arguments (seconds, monotonic).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Final

LATELY_SECONDS: Final = 2.0
UNKNOWN_HELD_SECONDS: Final = 4.0
SPARE_BYTES: Final = 2 * 1024
"""What may be in flight on a line of which nothing is known yet, and always."""
BATCHES: Final = 4
"""Into how many batches the limit is divided, so that answers come while others are on their way."""
HELD_SECONDS_MAX: Final = 60.0
"""A hub that says more is not believed."""


class Pace:
    """Of one session; ``begin`` starts the next."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """A session opens, perhaps over another line: nothing is known of it."""
        self._sent: dict[int, tuple[int, float]] = {}
        """Batches in flight: bytes, and when they left."""
        self._answered: deque[tuple[float, int]] = deque()
        """When bytes arrived at the hub, as far as answers show."""
        self._answered_bytes = 0
        self._delay: float | None = None
        self._held = UNKNOWN_HELD_SECONDS
        self.in_flight = 0
        """Bytes unanswered."""

    def limit(self, now: float) -> int:
        """Bytes that may be unanswered now."""
        since = now - LATELY_SECONDS - (self._delay or 0.0) - self._held
        while self._answered and self._answered[0][0] < since:
            self._answered_bytes -= self._answered.popleft()[1]
        return SPARE_BYTES + self._answered_bytes

    def batch_bytes(self, now: float) -> int:
        """The most one batch should have."""
        return max(SPARE_BYTES, self.limit(now) // BATCHES)

    def has_room(self, now: float) -> bool:
        """May a batch that is not more urgent than all in flight leave?"""
        return not self._sent or self.in_flight + self.batch_bytes(now) // 2 < self.limit(now)

    def left(self, batch: int, size: int, now: float) -> None:
        """The batch leaves now; called again when its size is known better."""
        before, since = self._sent.get(batch, (0, now))
        self._sent[batch] = (size, since)
        self.in_flight += size - before

    def answered(self, batch: int, held_seconds: float | None, now: float) -> None:
        """The hub has it, whatever it thinks of it."""
        size, since = self._sent.pop(batch, (0, now))
        self.in_flight -= size
        self._held = UNKNOWN_HELD_SECONDS if held_seconds is None else min(max(held_seconds, 0.0), HELD_SECONDS_MAX)
        on_its_way = max(0.0, now - since - (self._held if held_seconds is not None else 0.0))
        self._delay = on_its_way if self._delay is None else min(self._delay, on_its_way)
        self._answered.append((now, size))
        self._answered_bytes += size

    def lost(self, batch: int) -> None:
        """No answer will come."""
        size, _ = self._sent.pop(batch, (0, 0.0))
        self.in_flight -= size


FLOOR_SHARE_MAX: Final = 0.5
LIVE_FIRST_SHARE_MAX: Final = 0.9
"""So the oldest messages get at least a tenth."""
EARNED_BYTES_MAX: Final = 64 * 1024


class Shares:
    """Gives parts of the line to queues that would otherwise starve; both shares 0: strictly the most urgent first.

    Whenever bytes leave because they are the most urgent, every less urgent queue that waits and may send earns enough
    for its share of the whole; one that has earned a batch sends it before the most urgent continues.  Earnings are
    dropped when the queue stops waiting, and are bounded, so that an alarm never waits behind a long run of telemetry.

    ``floor_share``       each less urgent priority gets at least this part of the line
    ``live_first_share``  of a priority's part, its live lane gets this share and the rest of the priority the other

    Queues are named by ``queues.rank``: the live lane of a priority is even, the rest of it the next number.  Pure
    arithmetic, in bytes on the line.
    """

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
