"""When to write a change of a node's status: changes that revert within seconds are combined.

    changed ─▶ urgent: now
            ├▶ came up: when it holds what it should, at the latest after ``COUNTS_SECONDS``
            ├▶ went away: after ``AWAY_SECONDS``, unless it has returned by then
            ├▶ counts only: after ``COUNTS_SECONDS``, together with whatever changed until then
            └▶ how long messages take to reach a table: after ``TIMES_SECONDS``

A node that comes up changes its status with every object it receives, and thousands come up at once.

``ReturningNodes`` tracks the nodes that should return after this hub's start: those whose EdgeNode says connected and
that have no session yet.  It reports once, when all are back or the time is over.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

COMING_SECONDS: Final = 2.0
"""A node that comes up has its objects by then; otherwise it is reported as on the way, a while later."""
AWAY_SECONDS: Final = 3.0
"""Broken links are usually back within this time."""
COUNTS_SECONDS: Final = 10.0
"""A node being brought up to date changes its counts constantly; they are written at most this often."""
TIMES_SECONDS: Final = 60.0
"""A job that stops makes all nodes slow at once; each node's times are written after this delay, and at most this
often."""

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
        """Whether the change should be written now; if it has to wait, ``due`` returns the node later."""
        self._due[node] = due = self._since.setdefault(node, now) + _WAITS[change]
        return now >= due

    def due(self, now: float) -> list[str]:
        return [node for node, at in self._due.items() if at <= now]

    def waiting(self) -> list[str]:
        return list(self._due)

    def done(self, node: str) -> None:
        """The status was written, or what is written is correct after all."""
        self._since.pop(node, None)
        self._due.pop(node, None)


class ReturnSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How the return of nodes ended."""

    returned: int
    missing: int
    seconds: float
    """Seconds from the first expected node to the last that returned, or until waiting was given up."""


class ReturningNodes:
    """``now`` is always seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._waiting: set[str] = set()
        self._since: float | None = None
        self._back = 0
        self._over = False

    @property
    def waiting(self) -> int:
        """Number of nodes that have not returned yet."""
        return len(self._waiting)

    def expect(self, node: str, now: float) -> None:
        if not self._over:
            self._since = now if self._since is None else self._since
            self._waiting.add(node)

    def back(self, node: str) -> None:
        """The node has a session."""
        if node in self._waiting:
            self._waiting.discard(node)
            self._back += 1

    def forget(self, node: str) -> None:
        """The Node no longer exists."""
        self._waiting.discard(node)

    def summary(self, now: float, *, give_up: bool) -> ReturnSummary | None:
        """The summary, once, when all are back or waiting is given up; None before and after that."""
        if self._over or (self._waiting and not give_up) or (self._since is None and not give_up):
            return None
        self._over = True
        missing, self._waiting = len(self._waiting), set()
        if self._since is None:
            return None
        return ReturnSummary(returned=self._back, missing=missing, seconds=now - self._since)
