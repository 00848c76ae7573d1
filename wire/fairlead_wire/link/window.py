"""What is in flight, what is overdue, what an acknowledgement settles.

Both directions use it: the hub for objects, the edge for upstream batches.  It holds no bodies and no policy:
callers decide what to send, when to give up and what an acknowledged message meant (``token``).

A message whose deadline passes *lapses*: it no longer takes room, but its ack may still come (the peer stored
it and only the answer was slow), so lapsed ids are remembered, newest ``LAPSED_MAX``, until the session ends.
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
    """One sent message: its id, the caller's token, its size, and when its ack is overdue (seconds)."""

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
        """What is in flight, oldest first; what lapsed is not."""
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
        """Note a message as sent.  Ids rise; a repeated or lower one is a ``LocalError``."""
        if id <= self._highest:
            raise LocalError(f"message id {id} is not above {self._highest}")
        self._highest = id
        entry = SentMessage(id=id, token=token, size=size, deadline=now + timeout)
        self._flying[id] = entry
        self._bytes += size
        return entry

    def settle(self, id: int, *, cumulative: bool = False) -> list[SentMessage[Token]]:
        """The peer answered ``id`` (and, if cumulative, all before it): what that settles, oldest first.

        An id never sent, or settled before, settles nothing: duplicates and forgeries are harmless.
        """
        settled: list[SentMessage[Token]] = []
        if cumulative:
            # Only up to what was really sent: a peer cannot acknowledge the future.
            for store in (self._lapsed, self._flying):
                settled.extend([self._take(store, known) for known in list(store) if known <= id])
            settled.sort(key=lambda entry: entry.id)
        elif id in self._flying:
            settled.append(self._take(self._flying, id))
        elif id in self._lapsed:
            settled.append(self._take(self._lapsed, id))
        return settled

    def extend(self, id: int, *, now: float, timeout: float) -> bool:
        """Progress was made on ``id``: its timer restarts.  False when it is not in flight."""
        entry = self._flying.get(id)
        if entry is None:
            return False
        entry.deadline = now + timeout
        return True

    def lapse(self, now: float) -> list[SentMessage[Token]]:
        """Take out what is overdue; a late ack still settles it."""
        overdue = [entry for entry in self._flying.values() if entry.deadline <= now]
        for entry in overdue:
            self._lapsed[entry.id] = self._take(self._flying, entry.id)
        while len(self._lapsed) > LAPSED_MAX:
            self._lapsed.popitem(last=False)
        return overdue

    def next_deadline(self) -> float | None:
        """When ``lapse`` has to be called next; None when nothing is in flight."""
        return min((entry.deadline for entry in self._flying.values()), default=None)

    def clear(self) -> list[SentMessage[Token]]:
        """The session ended: everything unsettled, oldest first.  None of it counts as a failed try."""
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
