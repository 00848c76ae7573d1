"""The messages that wait for one node, in topic order; one message per input is in flight at a time.

    came (read from messaging) ─▶ due ─▶ sent ─┬ delivered | refused ─▶ done
         │                         ▲           ├ put off, session ended ─▶ waits
         └─ its time is over ──────│───────────┴─▶ expired, done
                                   └ the one behind it

``checkpoint`` is the position up to which all are done, where a hub that restarts continues to read.  No I/O; ``now``
is seconds since 1970.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from fairlead_wire import message

MESSAGES_MAX = 1000
"""Limit of messages that wait for one node."""
BYTES_MAX = 16 * 1024 * 1024
AT_START = ""
"""The position before the first message."""

Place = tuple[str, str]
"""Module and input."""


class WaitingInput(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is not done; its body stays in messaging."""

    id: str
    position: str
    before: str
    """The position of the preceding message in the topic."""
    place: Place
    expires: float
    size: int


class NodeQueue:
    """Not thread-safe."""

    def __init__(self) -> None:
        self.read_upto = AT_START
        """The topic was read up to this position."""
        self._waiting: dict[str, WaitingInput] = {}
        self._places: dict[Place, deque[str]] = {}
        self._in_flight: set[str] = set()
        self._not_before: dict[Place, float] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def get(self, id: str) -> WaitingInput | None:
        """Returns None if it does not wait."""
        return self._waiting.get(id)

    def has_room(self, messages: int, size: int) -> bool:
        """Whether there is room for this many more messages with this total size."""
        return len(self._waiting) + messages <= MESSAGES_MAX and (not self._waiting or self.bytes + size <= BYTES_MAX)

    @property
    def checkpoint(self) -> str:
        """All messages up to this position are done."""
        return next((each.before for each in self._waiting.values()), self.read_upto)

    # ---- what comes ----

    def add(self, found: WaitingInput) -> bool:
        """Add the next message of the topic.  Returns False if it already waits: it was sent twice under one key."""
        if found.id in self._waiting:
            return False
        self._waiting[found.id] = found
        self._places.setdefault(found.place, deque()).append(found.id)
        self.bytes += found.size
        return True

    # ---- what goes ----

    def due(self, now: float) -> list[WaitingInput]:
        """The messages to send now: the first of each input, as far as the window allows."""
        found: list[WaitingInput] = []
        room = message.INPUT_WINDOW - len(self._in_flight)
        for place, ids in self._places.items():
            if len(found) >= room:
                break
            if ids[0] not in self._in_flight and self._not_before.get(place, 0.0) <= now:
                found.append(self._waiting[ids[0]])
        return found

    def sent(self, id: str) -> None:
        """The message is in flight."""
        self._in_flight.add(id)

    def done(self, id: str) -> WaitingInput | None:
        """The node has the message, or will never accept it.  Returns None if it was done already."""
        found = self._waiting.pop(id, None)
        if found is None:
            return None
        self._in_flight.discard(id)
        self.bytes -= found.size
        ids = self._places[found.place]
        ids.remove(id)
        if not ids:
            del self._places[found.place]
            self._not_before.pop(found.place, None)
        return found

    def put_off(self, id: str, until: float) -> None:
        """Postpone the message, and those behind it, until this time."""
        found = self._waiting.get(id)
        self._in_flight.discard(id)
        if found is not None:
            self._not_before[found.place] = until

    def session_ended(self) -> None:
        """Messages in flight may have arrived; they are sent again, and the node recognizes their ids."""
        self._in_flight.clear()
        self._not_before.clear()

    def expired(self, now: float) -> list[WaitingInput]:
        """Expired messages.  They are done, unless they are in flight: the node reports the state of those."""
        found = [each for each in self._waiting.values() if each.expires <= now and each.id not in self._in_flight]
        for each in found:
            self.done(each.id)
        return found

    def next_time(self, now: float) -> float | None:
        """When something expires or may be sent again; None if nothing waits."""
        times: Iterable[float] = (
            *(each.expires for each in self._waiting.values() if each.id not in self._in_flight),
            *(until for until in self._not_before.values() if until > now),
        )
        return min(times, default=None)
