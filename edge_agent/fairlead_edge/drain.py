"""When a node moves to another hub: how long it delivers to the old one, and when it stops accepting messages.

    open ──few wait, or it takes too long──▶ closed ──nothing waits──▶ switch
      ▲                                        │
      └───────────not empty after a while──────┘        deadline ──▶ give up, or switch with what waits

Producers may publish while the backlog is delivered; they are refused only for the last stretch.  They are not refused
while the data plan lets nothing leave, because that may last until the next day.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

FEW: Final = 1000
"""With this many messages left, producers are refused: the rest leaves in a moment."""
CLOSED_SECONDS_MAX: Final = 20.0
"""If the queues are not empty after this time (the link was lost, say), producers are accepted again for a while."""
PAUSE_SECONDS: Final = 20.0
LATE: Final = 0.5
"""After this part of the time, producers are refused however much waits: they may be faster than the link."""

Step = Literal["open", "closed", "switch", "give up"]
Undelivered = Literal["stay", "take-along"]


class Observation(msgspec.Struct, frozen=True):
    """Messages waiting for the hub, publish requests being handled, and whether a session is open."""

    waiting: int
    in_work: int
    connected: bool
    held: str = ""
    """Why the device's data plan lets nothing leave although there is a session; "" if something may leave."""


class Drain:
    """Decides each step of the drain.  ``now`` is in seconds of any clock that does not jump."""

    def __init__(self, *, deadline_seconds: float, undelivered: Undelivered, now: float) -> None:
        self._late = now + deadline_seconds * LATE
        self._deadline = now + deadline_seconds
        self._undelivered = undelivered
        self._closed_at: float | None = None
        self._not_before = now

    def next_step(self, seen: Observation, now: float) -> Step:
        """What to do now; ``closed`` means that producers are refused, ``open`` that they are accepted."""
        if self._closed_at is None:
            return self._while_open(seen, now)
        if seen.in_work:
            return "closed"
        if not seen.waiting:
            return "switch"
        if now >= self._deadline:
            return "switch" if self._undelivered == "take-along" else "give up"
        if now - self._closed_at > CLOSED_SECONDS_MAX or seen.held:
            self._closed_at, self._not_before = None, now + PAUSE_SECONDS
            return "open"
        return "closed"

    def _while_open(self, seen: Observation, now: float) -> Step:
        if now >= self._deadline and self._undelivered == "stay" and (seen.waiting or seen.in_work):
            return "give up"
        can_leave = seen.connected and not seen.held
        soon = can_leave and now >= self._not_before and (seen.waiting <= FEW or now >= self._late)
        if not seen.waiting or soon or now >= self._deadline:
            self._closed_at = now
            return "closed"
        return "open"
