"""Who is to come back after this hub's start: nodes whose EdgeNode says connected and that have no session yet.

expect ─▶ waiting ─back─▶ returned        all back, or time is over ─▶ reported once
"""

from __future__ import annotations

import msgspec


class ReturnSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How a return ended."""

    returned: int
    missing: int
    seconds: float
    """From the first that was expected to the last that came, or until no node was waited for any longer."""


class ReturningNodes:
    """``now`` is always seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._waiting: set[str] = set()
        self._since: float | None = None
        self._back = 0
        self._over = False

    @property
    def waiting(self) -> int:
        """Nodes that have not come back yet."""
        return len(self._waiting)

    def expect(self, node: str, now: float) -> None:
        if not self._over:
            self._since = now if self._since is None else self._since
            self._waiting.add(node)

    def back(self, node: str) -> None:
        """It has a session."""
        if node in self._waiting:
            self._waiting.discard(node)
            self._back += 1

    def forget(self, node: str) -> None:
        """There is no such Node any more."""
        self._waiting.discard(node)

    def summary(self, now: float, *, give_up: bool) -> ReturnSummary | None:
        """Once, when all are back or no node is waited for any longer; None before and afterwards."""
        if self._over or (self._waiting and not give_up) or (self._since is None and not give_up):
            return None
        self._over = True
        missing, self._waiting = len(self._waiting), set()
        if self._since is None:
            return None
        return ReturnSummary(returned=self._back, missing=missing, seconds=now - self._since)
