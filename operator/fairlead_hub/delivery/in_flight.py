"""What one session has in flight: matches answers to messages, and finds overdue ones.

sent ─▶ in flight ─┬─ acked ──▶ Answered      one in flight per key (``key_state``); a send that lapsed may still be
                   ├─ nacked ─▶ Answered      acked late, and then says what the edge holds, unless something
                   └─ lapsed ─▶ Answered      newer was acked for that key
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fairlead_hub.cluster.content import ContentId, HeldCopy
from fairlead_hub.settings import NodeDelivery, WindowLimits
from fairlead_wire.link import window


class InFlightMessage(msgspec.Struct, kw_only=True, gc=False):
    """A message in flight; ``held`` is what the edge holds after an ack, None for a delete."""

    key: str
    uid: str
    path: str
    held: HeldCopy | None
    policy: NodeDelivery

    @property
    def content_id(self) -> ContentId:
        """What is sent or deleted."""
        return ContentId(self.uid, self.held.digest if self.held is not None else "")


Answered = window.SentMessage[InFlightMessage]
"""A message (``token``, sent under ``id``) that was acked, nacked, or not answered in time."""


class InFlightWindow:
    """See the module docstring.  ``now`` is seconds of one monotonic clock."""

    __slots__ = ("_answered_at", "_answered_id", "_chunked", "_lapsed", "_sent_id", "_window")

    def __init__(self, limits: WindowLimits) -> None:
        self._window: window.Window[InFlightMessage] = window.Window(
            messages_max=limits.messages, bytes_max=limits.bytes
        )
        self._lapsed: dict[str, int] = {}
        """Keys with a lapsed send → the newest id acked for them: a late ack of an older id says nothing."""
        self._sent_id = 0
        self._answered_id = 0
        self._answered_at = float("-inf")
        self._chunked: dict[int, float] = {}
        """Ids of updates sent in parts → ack timeout, restarted by progress."""

    def __len__(self) -> int:
        return len(self._window)

    @property
    def has_room(self) -> bool:
        return self._window.has_room

    def sent(self, id: int, message: InFlightMessage, size: int, now: float, *, in_parts: bool = False) -> None:
        """The message is being sent under this id."""
        timeout = message.policy.ack_timeout
        self._window.open(id=id, token=message, size=size, now=now, timeout=timeout)
        self._sent_id = id
        if in_parts:
            self._chunked[id] = timeout

    # ---- answers ---------------------------------------------------------------------------------

    def acked(self, id: int, *, cumulative: bool, now: float) -> Iterator[Answered]:
        """Everything this ack makes durable, oldest first, except sends superseded by a newer ack."""
        self._answered(id, now)
        for entry in self._window.settle(id, cumulative=cumulative):
            key = entry.token.key
            self._chunked.pop(entry.id, None)
            newest = self._lapsed.get(key)
            if newest is not None:
                if entry.id < newest:
                    continue
                self._lapsed[key] = entry.id
            yield entry

    def nacked(self, id: int, now: float) -> Answered | None:
        """The refused send; None if it is unknown or was already answered."""
        self._answered(id, now)
        self._chunked.pop(id, None)
        for entry in self._window.settle(id):
            return entry
        return None

    def progressed(self, id: int, now: float) -> None:
        timeout = self._chunked.get(id)
        if timeout is not None:
            self._window.extend(id, now=now, timeout=timeout)

    def _answered(self, id: int, now: float) -> None:
        if 0 < id <= self._sent_id:
            self._answered_id = max(self._answered_id, id)
            self._answered_at = now

    # ---- time ------------------------------------------------------------------------------------

    def lapsed(self, now: float) -> Iterator[Answered]:
        """Sends whose answer is overdue; it may still arrive."""
        self._allow_for_slow_links(now)
        for entry in self._window.lapse(now):
            self._lapsed.setdefault(entry.token.key, 0)
            yield entry

    def _allow_for_slow_links(self, now: float) -> None:
        """Let a timeout start no earlier than the last answer to a preceding message, because frames arrive in order.

        Otherwise a slow link with a full window would time out and send everything again although acks are arriving.  A
        message whose successors were answered is overdue by its own time, and no answer shortens a deadline.
        """
        deadline = self._window.next_deadline()
        if deadline is None or deadline > now:
            return
        for entry in self._window:
            timeout = entry.token.policy.ack_timeout
            if entry.id > self._answered_id and self._answered_at + timeout > max(now, entry.deadline):
                self._window.extend(entry.id, now=self._answered_at, timeout=timeout)

    def next_deadline(self) -> float | None:
        return self._window.next_deadline()
