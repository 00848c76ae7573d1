"""What one session has in flight: which message is about which key, what an answer settles, what is overdue.

launch ─▶ in flight ─┬─ acked ──▶ Landing          one in flight per key; a send that lapsed may still be
                     ├─ nacked ─▶ Flight            acked late, and then tells what the edge holds unless
                     └─ lapsed ─▶ Flight            something newer was acked for that key
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from fairlead_hub.cluster.content import ContentId, Held
from fairlead_hub.settings import Delivery, WindowLimits
from fairlead_wire import window


class InFlightMessage(msgspec.Struct, kw_only=True, gc=False):
    """What a message in flight was about; ``held`` is what an ack makes true, None for a delete."""

    key: str
    uid: str
    path: str
    held: Held | None
    policy: Delivery

    @property
    def content_id(self) -> ContentId:
        """What is sent, or deleted."""
        return ContentId(self.uid, self.held.digest if self.held is not None else "")


class Settled(NamedTuple):
    """A message was acked; ``last``: nothing of this key is in flight any more by this ack."""

    flight: InFlightMessage
    last: bool


class InFlight:
    """See the module.  ``now`` is seconds of one monotonic clock."""

    __slots__ = ("_answered_at", "_answered_id", "_chunked", "_flying", "_lapsed", "_sent_id", "_window")

    def __init__(self, limits: WindowLimits) -> None:
        self._window: window.Window[InFlightMessage] = window.Window(
            messages_max=limits.messages, bytes_max=limits.bytes
        )
        self._flying: dict[str, window.InFlight[InFlightMessage]] = {}
        self._lapsed: dict[str, int] = {}
        """Keys with a send that lapsed → the newest id acked for them: an older ack that comes late says nothing."""
        self._sent_id = 0
        self._answered_id = 0
        self._answered_at = float("-inf")
        self._chunked: dict[int, float] = {}
        """Ids of updates sent in parts → ack timeout, restarted by progress."""

    def __contains__(self, key: object) -> bool:
        return key in self._flying

    def __len__(self) -> int:
        return len(self._window)

    @property
    def has_room(self) -> bool:
        return self._window.has_room

    def launch(self, id: int, flight: InFlightMessage, size: int, now: float, *, in_parts: bool = False) -> None:
        """It is being sent under this id."""
        timeout = flight.policy.ack_timeout
        self._flying[flight.key] = self._window.open(id=id, token=flight, size=size, now=now, timeout=timeout)
        self._sent_id = id
        if in_parts:
            self._chunked[id] = timeout

    # ---- answers ---------------------------------------------------------------------------------

    def acked(self, id: int, *, cumulative: bool, now: float) -> Iterator[Settled]:
        """Everything that is durable by this ack, oldest first, except what a newer ack has made old news."""
        self._answered(id, now)
        for entry in self._window.settle(id, cumulative=cumulative):
            flight = entry.token
            self._chunked.pop(entry.id, None)
            newest = self._lapsed.get(flight.key)
            if newest is not None:
                if entry.id < newest:
                    continue
                self._lapsed[flight.key] = entry.id
            yield Settled(flight, self._land(flight.key, entry.id))

    def nacked(self, id: int, now: float) -> InFlightMessage | None:
        """The send that was refused; None when its retry is arranged already, or it never was."""
        self._answered(id, now)
        for entry in self._window.settle(id):
            if self._land(entry.token.key, entry.id):
                return entry.token
        return None

    def progressed(self, id: int, now: float) -> None:
        timeout = self._chunked.get(id)
        if timeout is not None:
            self._window.extend(id, now=now, timeout=timeout)

    def _answered(self, id: int, now: float) -> None:
        if 0 < id <= self._sent_id:
            self._answered_id = max(self._answered_id, id)
            self._answered_at = now

    def _land(self, key: str, id: int) -> bool:
        entry = self._flying.get(key)
        if entry is None or entry.id != id:
            return False
        del self._flying[key]
        return True

    # ---- time ------------------------------------------------------------------------------------

    def lapsed(self, now: float) -> Iterator[InFlightMessage]:
        """Sends whose ack is overdue, and of which nothing newer is in flight."""
        self._allow_for_slow_links(now)
        for entry in self._window.lapse(now):
            self._lapsed.setdefault(entry.token.key, 0)
            if self._land(entry.token.key, entry.id):
                yield entry.token

    def _allow_for_slow_links(self, now: float) -> None:
        """Frames arrive in order: what was sent after the last answer counts its timeout from that answer.

        Otherwise a thin link with a full window would time out, and send everything again, while acks are flowing.
        A message whose successors were answered is overdue by its own time.
        """
        deadline = self._window.next_deadline()
        if deadline is None or deadline > now:
            return
        for entry in self._flying.values():
            timeout = entry.token.policy.ack_timeout
            if entry.id > self._answered_id and self._answered_at + timeout > now:
                self._window.extend(entry.id, now=self._answered_at, timeout=timeout)

    def next_deadline(self) -> float | None:
        return self._window.next_deadline()
