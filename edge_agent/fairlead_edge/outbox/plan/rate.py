"""So many bytes a second: a bucket that fills at the rate, and may be overdrawn by one batch.

Pure: times are arguments (seconds, never falling).
"""

from __future__ import annotations

from typing import Final

BURST_SECONDS: Final = 1.0
"""What may leave at once after a pause."""
BATCH_SECONDS: Final = 0.25
"""What leaves after a wait is as much as the line gets in this time, not a byte: messages then share a batch, its
headers and its compression, and an alarm waits no longer than that."""
ROUNDING: Final = 1e-3
"""Less than this part of a byte is not waited for: it is the error of sums."""


class Rate:
    """``bytes_per_second`` is above 0.  A bucket is full at the beginning."""

    def __init__(self, bytes_per_second: int) -> None:
        self._rate = bytes_per_second
        self._room = bytes_per_second * BURST_SECONDS
        self._at = 0.0

    def due(self, now: float) -> float:
        """From when on something may leave; now or before: at once."""
        self._fill(now)
        missing = max(1.0, self._rate * BATCH_SECONDS) - self._room
        return now if missing < ROUNDING else now + missing / self._rate

    def room(self, now: float) -> int:
        """What may leave now."""
        self._fill(now)
        return max(0, int(self._room))

    def left(self, size: int, now: float) -> None:
        """So many bytes left; perhaps more than there was room for."""
        self._fill(now)
        self._room -= size

    def _fill(self, now: float) -> None:
        if now > self._at:
            self._room = min(self._rate * BURST_SECONDS, self._room + (now - self._at) * self._rate)
        self._at = now
