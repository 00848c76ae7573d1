"""When a change of a node's status is written: what comes and goes within seconds is written once, when it is over.

    changed ─▶ urgent: now
            ├▶ came up: when it holds what it should, at the latest after ``COUNTS_SECONDS``
            ├▶ went away: after ``AWAY_SECONDS``, if it is not back by then
            ├▶ counts alone: after ``COUNTS_SECONDS``, with whatever changed until then
            └▶ how long messages take to a table: after ``TIMES_SECONDS``

A node that comes up changes its status with every object it takes, and thousands come up at once.
"""

from __future__ import annotations

from typing import Final, Literal

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
