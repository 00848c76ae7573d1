"""What the pump wants done: values for the one who drives it."""

from __future__ import annotations

import msgspec

from fairlead_edge.outbox.outbox import Item, Refusal
from fairlead_edge.outbox.queue_id import QueueId


class Fetch(msgspec.Struct, frozen=True, kw_only=True):
    """The next live messages of this queue.  By ``rewinds`` a fetch that a failure overtook is known."""

    queue: QueueId
    topic: str = ""
    """For the stream of this topic that was deferred; "": for the queue's own."""
    after: int
    messages_max: int
    bytes_max: int
    rewinds: int


class SendBatch(msgspec.Struct, frozen=True, kw_only=True):
    """This batch on the link, in the order of these effects."""

    batch: int
    queue: QueueId
    topic: str = ""
    """The hub deferred this topic: its messages go apart, in an order of their own."""
    items: tuple[Item, ...]
    follows: bool = False
    """An earlier batch of this stream is unanswered as this one leaves; the hub puts them off together."""


class Settle(msgspec.Struct, frozen=True, kw_only=True):
    """These offsets done, durably; then call ``settled``."""

    batch: int
    queue: QueueId
    sent: tuple[int, ...]
    refused: tuple[Refusal, ...]
    checkpoint: int


class PumpWait(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing to do before something happens, or before ``until`` (None: whatever the clock says)."""

    until: float | None = None
