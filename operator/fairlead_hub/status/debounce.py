"""When a change of a node's status is written: changes that come and go within seconds are written once.

    changed ─▶ urgent: now
            ├▶ came up: when it holds what it should, at the latest after ``COUNTS_SECONDS``
            ├▶ went away: after ``AWAY_SECONDS``, unless it is back by then
            ├▶ counts alone: after ``COUNTS_SECONDS``, with whatever changed until then
            └▶ how long messages take to reach a table: after ``TIMES_SECONDS``

A node that comes up changes its status with every object it takes, and thousands come up at once.

``ReturningNodes`` has the nodes that should return after this hub's start: those whose EdgeNode says connected and that
have no session yet.  It reports once, when all are back or the time is over.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

COMING_SECONDS: Final = 2.0
"""A node that comes up has its objects by then, or is reported to be on the way a while later."""
AWAY_SECONDS: Final = 3.0
"""Links break and are back within this."""
COUNTS_SECONDS: Final = 10.0
"""A node being brought up to date changes its counts all the time: they are written at most this often."""
TIMES_SECONDS: Final = 60.0
"""A job that stops makes all nodes slow at once: each says so by this, and at most this often."""

Change = Literal["urgent", "came", "coming", "left", "counts", "times"]
_WAITS: Final = {
    "urgent": 0.0,
    "came": COMING_SECONDS,
    "coming": COUNTS_SECONDS,
    "left": AWAY_SECONDS,
    "counts": COUNTS_SECONDS,
    "times": TIMES_SECONDS,
}


class Debounce:
    """By node; ``now`` is always seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._due: dict[str, float] = {}

    def is_due(self, node: str, change: Change, now: float) -> bool:
        """A change is there that is not written yet; if it may wait, ``due`` names the node when its time has come."""
        self._due[node] = due = self._since.setdefault(node, now) + _WAITS[change]
        return now >= due

    def due(self, now: float) -> list[str]:
        return [node for node, at in self._due.items() if at <= now]

    def waiting(self) -> list[str]:
        return list(self._due)

    def done(self, node: str) -> None:
        """It was written, or what is written is right after all."""
        self._since.pop(node, None)
        self._due.pop(node, None)



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
