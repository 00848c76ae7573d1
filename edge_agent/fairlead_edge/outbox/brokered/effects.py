"""What an endpoint wants done: values for the one who drives it."""

from __future__ import annotations

import msgspec

from fairlead_edge.outbox.outbox import Refusal
from fairlead_edge.outbox.queue_id import QueueId


class BrokeredFetch(msgspec.Struct, frozen=True, kw_only=True):
    """The next live messages of this queue above ``after``; with ``only``, those of these offsets that are live."""

    queue: QueueId
    after: int
    only: tuple[int, ...] = ()
    alone: bool = False
    """It failed before: the module gets nothing else with it."""
    messages_max: int
    bytes_max: int


class BrokeredSettle(msgspec.Struct, frozen=True, kw_only=True):
    """These offsets done, durably; then call ``settled`` with it, or ``not_settled`` when that failed."""

    queue: QueueId
    sent: tuple[int, ...] = ()
    refused: tuple[Refusal, ...] = ()
    checkpoint: int

    @property
    def offsets(self) -> tuple[int, ...]:
        return (*self.sent, *(refusal.offset for refusal in self.refused))
