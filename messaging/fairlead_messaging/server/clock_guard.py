"""Whether the clock can be trusted to delete by.

Reading judges expiry by the clock as it is, and a wrong clock does no lasting harm there.  Removal is for good: after a
jump ahead it waits, so that an operator, or the clock itself, has time to put it right.
"""

from __future__ import annotations

JUMP_MS = 60_000
"""How much further than real time the clock may go between two looks."""

TRUST_AGAIN_MS = 3_600_000
"""A clock that stayed where it jumped to for so long is believed."""


class ClockJumpGuard:
    """Compares the wall clock with one that only runs forward; both in milliseconds."""

    def __init__(self, wall_ms: int, steady_ms: int) -> None:
        self._wall_ms = wall_ms
        self._steady_ms = steady_ms
        self._jumped_at: int | None = None
        self._ahead_ms = 0

    def look(self, wall_ms: int, steady_ms: int) -> bool:
        """True when removing by ``wall_ms`` is safe."""
        drift = (wall_ms - self._wall_ms) - (steady_ms - self._steady_ms)
        self._wall_ms, self._steady_ms = wall_ms, steady_ms
        if drift > JUMP_MS:
            self._jumped_at = steady_ms
            self._ahead_ms += drift
        elif self._jumped_at is not None and drift < 0:
            self._ahead_ms += drift
        if self._jumped_at is not None and (self._ahead_ms <= JUMP_MS or steady_ms - self._jumped_at >= TRUST_AGAIN_MS):
            self._jumped_at, self._ahead_ms = None, 0
        return self._jumped_at is None
