"""Chooses the reported status to send next: one per object at a time, least recently changed first, with backoff.

    put ─▶ waiting ─next▶ in flight ─┬─ settled: written, or permanently refused
              ▲                      ├─ later: after a growing pause, for this object or for all
              └──────────────────────┴─ lost: the link went down; retried at once in the next session

A newer status of an object replaces one that is waiting; if one is in flight, the newer one is sent after its answer.
``now`` is in seconds of a monotonic clock.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from fairlead_edge.objects.statuses.status_store import Key, StatusSummary
from fairlead_wire.backoff import Backoff

WINDOW: Final = 8
"""How many may be unanswered."""
BACKOFF: Final = Backoff(1.0, 60.0)


class Sending:
    """The state of sending.  ``lines`` has a summary of every status."""

    def __init__(self) -> None:
        self.lines: dict[Key, StatusSummary] = {}
        self._in_flight: set[Key] = set()
        self._pauses: dict[Key, tuple[int, float]] = {}
        """Consecutive attempts, and the time of the next one."""
        self._all_until = float("-inf")

    def put(self, line: StatusSummary) -> None:
        """Set the summary of an object's status, replacing an older one."""
        self.lines.pop(line.key, None)
        self.lines[line.key] = line
        self._pauses.pop(line.key, None)

    def gone(self, key: Key) -> None:
        """The object was removed."""
        self.lines.pop(key, None)
        self._pauses.pop(key, None)

    def next(self, now: float) -> Key | None:
        """The next status to send, which is in flight from now on; None: none is due."""
        if len(self._in_flight) >= WINDOW or now < self._all_until:
            return None
        for key, line in self.lines.items():
            if line.state == "waiting" and key not in self._in_flight and now >= self._until(key):
                self._in_flight.add(key)
                return key
        return None

    def next_at(self, now: float) -> float | None:
        """When ``next`` may return one without a further event; None: never."""
        if len(self._in_flight) >= WINDOW:
            return None
        due = [
            max(self._until(key), self._all_until)
            for key, line in self.lines.items()
            if line.state == "waiting" and key not in self._in_flight
        ]
        return max(now, min(due)) if due else None

    def settled(self, key: Key, sequence: int, *, code: str = "", reason: str = "") -> None:
        """The hub answered for this sequence."""
        self._in_flight.discard(key)
        line = self.lines.get(key)
        if line is not None and line.sequence == sequence:
            state = "refused" if code else "written"
            self.lines[key] = msgspec.structs.replace(line, state=state, code=code, reason=reason)
            self._pauses.pop(key, None)

    def lost(self, key: Key) -> None:
        """The link went down, or there is nothing to send for this object any more."""
        self._in_flight.discard(key)

    def later(
        self, key: Key, sequence: int, now: float, draw: float, *, asked: float | None, everything: bool = False
    ) -> None:
        """The hub refused it temporarily.  ``asked``: seconds that the hub asked for; ``draw`` is from [0, 1)."""
        self._in_flight.discard(key)
        line = self.lines.get(key)
        if line is None or line.sequence != sequence:
            return
        times = self._pauses.get(key, (0, 0.0))[0] + 1
        seconds = BACKOFF.pause(times - 1, draw, asked=asked)
        self._pauses[key] = (times, now + seconds)
        if everything:
            self._all_until = max(self._all_until, now + seconds)

    def counts(self) -> Counter[str]:
        """The number of statuses by state."""
        found = Counter({"waiting": 0, "written": 0, "refused": 0})
        found.update(line.state for line in self.lines.values())
        return found

    def _until(self, key: Key) -> float:
        return self._pauses[key][1] if key in self._pauses else float("-inf")
