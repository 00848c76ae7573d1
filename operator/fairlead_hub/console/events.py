"""Recent events, newest first: the events that are published on the system topic, one line each."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from fairlead_hub.wall_clock import WallClock
from fairlead_wire.event import Event

KEPT = 200
PROBLEMS = frozenset(
    ["object.parked", "routes.refused", "queue.stalled", "messages.refused", "node.deletion_guard", "node.replaced"]
)
"""Types that people should look at."""
DETAIL_FIELDS = ("reason", "message", "agentVersion", "objectsHeld", "fence", "count", "retries", "errorsTotal")
"""Fields of an event's data that a line shows, in this order."""


_CALLED = {"agentVersion": "agent", "objectsHeld": "objects held:", "errorsTotal": "errors:"}


class EventLine(NamedTuple):
    """One event as a line."""

    number: int
    at: int
    """Seconds since 1970."""
    type: str
    node: str
    subject: str
    text: str
    is_problem: bool


class EventLog:
    """The most recent events."""

    def __init__(self) -> None:
        self._lines: deque[EventLine] = deque(maxlen=KEPT)
        self._number = 0
        self._new: deque[EventLine] = deque(maxlen=KEPT)

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            self._number += 1
            line = EventLine(
                self._number,
                WallClock.moment(event.time),
                event.type,
                event.node,
                event.subject,
                _details(event.data),
                event.type in PROBLEMS,
            )
            self._lines.appendleft(line)
            self._new.appendleft(line)

    def newest(self, count: int = KEPT) -> list[EventLine]:
        return list(self._lines)[:count]

    def take_new(self) -> list[EventLine]:
        """Events since the last call, newest first; at most as many as are kept."""
        new = list(self._new)
        self._new.clear()
        return new


def _details(data: dict[str, Any]) -> str:
    found = [(key, data[key]) for key in DETAIL_FIELDS if data.get(key) not in (None, "")]
    if "priority" in data:  # then it also stands for the reason
        found = [("priority", data["priority"]), *((key, value) for key, value in found if key != "reason")]
    details = [(key, value) for key, value in found if (key, value) != ("count", 1)]
    return ", ".join(
        str(value) if key in ("reason", "message") else f"{_CALLED.get(key, key)} {value}" for key, value in details
    )
