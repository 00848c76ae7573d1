"""What is in flight, what is overdue, and what an acknowledgement settles.

The hub uses it for objects, the edge for upstream batches.  It holds no content and no policy: callers decide
what to send and when to give up, and identify a message by its ``token``.

A message whose deadline passes *lapses*: it no longer takes up room, but its ack may still arrive if the peer was only
slow, so the newest ``LAPSED_MAX`` lapsed messages are remembered until the session ends.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec

from fairlead_wire.errors import LocalError

LAPSED_MAX = 1024

Token = TypeVar("Token")


class SentMessage(msgspec.Struct, Generic[Token], kw_only=True):
    """One sent message: its id, the caller's token, its size in bytes, and the time at which its ack is overdue."""

    id: int
    token: Token
    size: int
    deadline: float


class Window(Generic[Token]):
    """At most ``messages_max`` messages and about ``bytes_max`` bytes unacknowledged at once.

    One message is always allowed, however large, so that nothing starves.
    """

    def __init__(self, *, messages_max: int, bytes_max: int) -> None:
        self.messages_max = messages_max
        self.bytes_max = bytes_max
        self._flying: OrderedDict[int, SentMessage[Token]] = OrderedDict()
        self._lapsed: OrderedDict[int, SentMessage[Token]] = OrderedDict()
        self._bytes = 0
        self._highest = 0

    def __len__(self) -> int:
        return len(self._flying)

    def __iter__(self) -> Iterator[SentMessage[Token]]:
        """Messages in flight, oldest first, without lapsed ones."""
        return iter(self._flying.values())

    @property
    def bytes(self) -> int:
        return self._bytes

    @property
    def has_room(self) -> bool:
        if not self._flying:
            return True
        return len(self._flying) < self.messages_max and self._bytes < self.bytes_max

    def open(self, *, id: int, token: Token, size: int, now: float, timeout: float) -> SentMessage[Token]:
        """Record a sent message.  Raises ``LocalError`` unless its id is higher than all before."""
        if id <= self._highest:
            raise LocalError(f"message id {id} is not above {self._highest}")
        self._highest = id
        entry = SentMessage(id=id, token=token, size=size, deadline=now + timeout)
        self._flying[id] = entry
        self._bytes += size
        return entry

    def settle(self, id: int, *, cumulative: bool = False) -> list[SentMessage[Token]]:
        """The messages settled by an answer to ``id`` (if cumulative: and to all before it), oldest first.

        An id that was never sent, or is already settled, settles nothing, so duplicates and forgeries are harmless.
        """
        settled: list[SentMessage[Token]] = []
        if cumulative:
            # Only messages that were sent: a peer cannot acknowledge later ones in advance.
            for store in (self._lapsed, self._flying):
                settled.extend([self._take(store, known) for known in list(store) if known <= id])
            settled.sort(key=lambda entry: entry.id)
        elif id in self._flying:
            settled.append(self._take(self._flying, id))
        elif id in self._lapsed:
            settled.append(self._take(self._lapsed, id))
        return settled

    def extend(self, id: int, *, now: float, timeout: float) -> bool:
        """Restart the timer of ``id`` after progress.  False if it is not in flight."""
        entry = self._flying.get(id)
        if entry is None:
            return False
        entry.deadline = now + timeout
        return True

    def lapse(self, now: float) -> list[SentMessage[Token]]:
        """Remove and return overdue messages; a late ack still settles them."""
        overdue = [entry for entry in self._flying.values() if entry.deadline <= now]
        for entry in overdue:
            self._lapsed[entry.id] = self._take(self._flying, entry.id)
        while len(self._lapsed) > LAPSED_MAX:
            self._lapsed.popitem(last=False)
        return overdue

    def next_deadline(self) -> float | None:
        """The time at which ``lapse`` has to be called next; None if nothing is in flight."""
        return min((entry.deadline for entry in self._flying.values()), default=None)

    def clear(self) -> list[SentMessage[Token]]:
        """Empty the window when the session ends; returns what was in flight, oldest first.

        None of these messages counts as a failed attempt.
        """
        left = list(self._flying.values())
        self._flying.clear()
        self._lapsed.clear()
        self._bytes = 0
        return left

    def _take(self, store: OrderedDict[int, SentMessage[Token]], id: int) -> SentMessage[Token]:
        entry = store.pop(id)
        if store is self._flying:
            self._bytes -= entry.size
        return entry
