"""When a node moves to another hub: how long it delivers to the old one, and when it stops accepting messages.

    open ──few wait, or it takes too long──▶ closed ──nothing waits──▶ switch
      ▲                                        │
      └───────────not empty after a while──────┘        deadline ──▶ give up, or switch with what waits

Producers go on while the backlog is delivered; only the last stretch is closed to them.  It is not closed while the
data plan lets nothing leave: that may take until the next day.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

FEW: Final = 1000
"""This many messages leave in a moment."""
CLOSED_SECONDS_MAX: Final = 20.0
"""A link that is lost meanwhile must not keep producers waiting: it is opened again, and closed later."""
PAUSE_SECONDS: Final = 20.0
LATE: Final = 0.5
"""After this part of the time it is closed however much waits: producers may be faster than the link."""

Step = Literal["open", "closed", "switch", "give up"]
Undelivered = Literal["stay", "take-along"]


class Observation(msgspec.Struct, frozen=True):
    """One observation: messages waiting for the hub, requests being handled, and whether a session is open."""

    waiting: int
    in_work: int
    connected: bool
    held: str = ""
    """Why nothing may leave although there is a session: the device's own data plan; "" when something may."""


class Drain:
    """``now`` is seconds of any clock that does not jump."""

    def __init__(self, *, deadline_seconds: float, undelivered: Undelivered, now: float) -> None:
        self._late = now + deadline_seconds * LATE
        self._deadline = now + deadline_seconds
        self._undelivered = undelivered
        self._closed_at: float | None = None
        self._not_before = now

    def next_step(self, seen: Observation, now: float) -> Step:
        """What to do now; ``closed`` and ``open``: whether producers are to be refused."""
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
