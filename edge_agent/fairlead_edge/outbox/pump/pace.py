"""Pacing and fair shares of the link: how much may be in flight, and which queue is next.

``Pace`` limits the unanswered bytes to about what the link carried recently, so that nothing urgent waits long.  What
was sent cannot be recalled: on a link of 16 kB/s, a window of 256 KiB blocks alarms for sixteen seconds.  So the bytes
in flight are limited to what was acknowledged in the last ``LATELY_SECONDS``, and a little more, so that a faster link
is noticed: at first the limit doubles with each answer.

    limit = SPARE_BYTES + bytes acknowledged in the last (LATELY_SECONDS + delay + held) seconds

``delay`` is the shortest transit time of a batch in this session, so that a link with a long delay is filled; ``held``
is how long the hub held the last batch before it answered, so that a slow messaging service does not look like a slow
link.  ``UNKNOWN_HELD_SECONDS`` is assumed for a hub that does not report it.

``Shares`` gives parts of the link to queues that would otherwise starve.

Bytes are those of the packed frame.  Pure: times are arguments (seconds, monotonic).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Final

LATELY_SECONDS: Final = 2.0
UNKNOWN_HELD_SECONDS: Final = 4.0
SPARE_BYTES: Final = 2 * 1024
"""What may always be in flight, even on a link of unknown speed."""
BATCHES: Final = 4
"""Into how many batches the limit is divided, so that answers arrive while other batches are in flight."""
HELD_SECONDS_MAX: Final = 60.0
"""A hub that reports more is not believed."""


class Pace:
    """The pacing of one session; ``begin`` starts the next."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """A session opens, perhaps over another link: forget what was measured."""
        self._sent: dict[int, tuple[int, float]] = {}
        """Batches in flight: their bytes, and when they were sent."""
        self._answered: deque[tuple[float, int]] = deque()
        """When bytes arrived at the hub, according to its answers."""
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
        """The most bytes that one batch should have."""
        return max(SPARE_BYTES, self.limit(now) // BATCHES)

    def has_room(self, now: float) -> bool:
        """Whether a batch may be sent that is not more urgent than everything in flight."""
        return not self._sent or self.in_flight + self.batch_bytes(now) // 2 < self.limit(now)

    def sent(self, batch: int, size: int, now: float) -> None:
        """The batch is sent now; called again when its exact size is known."""
        before, since = self._sent.get(batch, (0, now))
        self._sent[batch] = (size, since)
        self.in_flight += size - before

    def answered(self, batch: int, held_seconds: float | None, now: float) -> None:
        """The hub received the batch, whether it accepted it or not."""
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
"""Leaves at least a tenth for the oldest messages."""
EARNED_BYTES_MAX: Final = 64 * 1024


class Shares:
    """Gives parts of the link to queues that would otherwise starve; if both shares are 0, the most urgent goes first.

    Whenever bytes are sent because they are the most urgent, every less urgent queue that waits and may send earns
    credit for its share; a queue with credit for a batch sends it before the most urgent continues.  Credit is dropped
    when the queue stops waiting, and it is bounded, so that an alarm never waits behind a long run of telemetry.

    ``floor_share``       each less urgent priority gets at least this part of the link
    ``live_first_share``  of a priority's part, its live lane gets this share and the rest of the priority the other

    Queues are identified by ``queues.rank``: the live lane of a priority is even, the rest of it the next number.
    Sizes are bytes on the link.
    """

    def __init__(self, floor_share: float = 0.0, live_first_share: float = 0.0) -> None:
        self._floor = floor_share
        self._live = live_first_share
        self._earned: dict[int, float] = {}
        """Credit by rank, while the queue waits; negative after a message that was larger than the credit."""

    @property
    def counts(self) -> bool:
        """Whether any share is configured."""
        return self._floor > 0 or self._live > 0

    def due(self, batch_bytes: int) -> list[int]:
        """Ranks that have credit for a batch of this size, the highest credit first."""
        if not self._earned:
            return []
        enough = min(batch_bytes, EARNED_BYTES_MAX)
        found = [rank for rank, earned in self._earned.items() if earned >= enough]
        return sorted(found, key=lambda rank: (-self._earned[rank], rank))

    def sent(self, rank: int, size: int, waiting: Collection[int]) -> None:
        """``size`` bytes of this rank were sent; ``waiting`` has all ranks that could send, or could have sent."""
        if not self.counts:
            return
        if any(other < rank for other in waiting):  # it was sent for its share, so its credit is charged
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
