"""A token bucket, as in client-go: a rate per second on average, and a burst.

refilled over time, up to ``burst`` ─take─▶ one less    empty: ``next_at`` returns when the next one is available
"""

from __future__ import annotations

_ROUNDING = 1e-9
"""Tolerance for sums of floating-point numbers, as a fraction of a token."""


class TokenBucket:
    """Starts full.  ``now`` is always seconds of one monotonic clock."""

    __slots__ = ("_burst", "_filled_at", "_per_second", "_tokens")

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second, self._burst = per_second, burst
        self._tokens = burst
        self._filled_at = float("-inf")

    def tokens(self, now: float) -> float:
        """The number of tokens; negative after more were taken than were available."""
        if now > self._filled_at:
            self._tokens = min(self._burst, self._tokens + self._per_second * (now - self._filled_at))
            self._filled_at = now
        return self._tokens

    def whole(self, now: float) -> int:
        """The number of tokens that may be taken."""
        return max(0, int(self.tokens(now) + _ROUNDING))

    def has_one(self, now: float) -> bool:
        return self.tokens(now) >= 1 - _ROUNDING

    def take(self, now: float, count: float = 1.0) -> None:
        """More than are available may be taken: then they are missing later."""
        self._tokens = self.tokens(now) - count

    def give_back(self) -> None:
        """Return a token that was taken and not used."""
        self._tokens = min(self._burst, self._tokens + 1)

    def next_at(self, now: float) -> float:
        """When a token is available."""
        return now if self.has_one(now) else now + (1 - self._tokens) / self._per_second
