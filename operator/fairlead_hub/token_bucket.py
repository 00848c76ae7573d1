"""A token bucket, as client-go's: so many a second on average, and as many at once as it holds.

refilled with time, up to ``burst`` ─take─▶ one less        empty: ``next_at`` says when one is there again
"""

from __future__ import annotations

_ROUNDING = 1e-9
"""Of a token, which sums of floating-point numbers may lack."""


class TokenBucket:
    """Full at the beginning.  ``now`` is always seconds of one monotonic clock."""

    __slots__ = ("_burst", "_filled_at", "_per_second", "_tokens")

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second, self._burst = per_second, burst
        self._tokens = burst
        self._filled_at = float("-inf")

    def tokens(self, now: float) -> float:
        """How many are there; below zero after more was taken than there was."""
        if now > self._filled_at:
            self._tokens = min(self._burst, self._tokens + self._per_second * (now - self._filled_at))
            self._filled_at = now
        return self._tokens

    def whole(self, now: float) -> int:
        """How many may be taken."""
        return max(0, int(self.tokens(now) + _ROUNDING))

    def has_one(self, now: float) -> bool:
        return self.tokens(now) >= 1 - _ROUNDING

    def take(self, now: float, count: float = 1.0) -> None:
        """Also what is not there: then it is missing later."""
        self._tokens = self.tokens(now) - count

    def give_back(self) -> None:
        """One that was taken and not used."""
        self._tokens = min(self._burst, self._tokens + 1)

    def next_at(self, now: float) -> float:
        """When there is one."""
        return now if self.has_one(now) else now + (1 - self._tokens) / self._per_second
