"""Bytes kept in memory for callers, so that many of them at once cannot take all there is."""

from __future__ import annotations

from fairlead_messaging.api.errors import Unavailable

RETRY_AFTER_SECONDS = 1.0


class MemoryBudget:
    """At most ``bytes_max`` at a time; ``code`` names the limit to who meets it.  Changed by the event loop only."""

    def __init__(self, bytes_max: int, code: str) -> None:
        self._bytes_max = bytes_max
        self._code = code
        self.in_use = 0

    def check(self) -> None:
        """Raises: Unavailable when all of it is in use."""
        if self.in_use >= self._bytes_max:
            raise self._full()

    def take(self, size: int) -> None:
        """Raises: Unavailable when there is no room for it; nothing is taken then."""
        if self.in_use + size > self._bytes_max:
            raise self._full()
        self.in_use += size

    def add(self, size: int) -> None:
        """Count what is there already, were it too much."""
        self.in_use += size

    def release(self, size: int) -> None:
        self.in_use -= size

    def _full(self) -> Unavailable:
        return Unavailable(
            f"{self._bytes_max} bytes are in use for other callers", code=self._code,
            retry_after_seconds=RETRY_AFTER_SECONDS,
        )  # fmt: skip
