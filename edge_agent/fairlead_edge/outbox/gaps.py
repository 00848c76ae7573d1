"""Accepted messages that the disk damaged: they are counted, and a gap record is sent in their place.

    Damage (one message) ─group─▶ Gap (neighbours) ─content─▶ a message of its own in the topic they were for

The record's body is ``{"queue", "from_sequence", "to_sequence", "count", "reason"}``.  At most ``count`` messages are
missing: some of those that were in flight when the damage was found may have arrived.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from fairlead_edge.outbox import envelope
from fairlead_edge.outbox.queues import QueueId

SOURCE: Final = "/fairlead/gaps"
CODE: Final = "damaged"
"""The code of a dead letter that records missing messages whose topic is unknown."""
_SYSTEM: Final[dict[str, str | None]] = {"contentType": "application/json", "contentEncoding": "utf-8"}


class Damage(msgspec.Struct, frozen=True):
    """A message that differs from what was accepted; ``topic`` is "" if that is lost as well."""

    offset: int
    topic: str
    reason: str


class QueueGap(msgspec.Struct, frozen=True):
    """A range of a queue, from first to last, in which at most ``count`` messages are missing."""

    first: int
    last: int
    count: int
    topic: str
    reason: str


class _GapBody(msgspec.Struct, frozen=True):
    queue: str
    from_sequence: int
    to_sequence: int
    count: int
    reason: str


def group(damaged: Iterable[Damage], *, topic: str = "") -> list[QueueGap]:
    """Combines neighbours with the same topic into one gap, with the reason of the first.

    Where a topic is lost, that of the previous neighbour is assumed, or else ``topic``, to which others of the queue
    went.
    """
    found: list[QueueGap] = []
    for each in sorted(damaged, key=lambda each: each.offset):
        before = found[-1] if found else None
        if before and before.last + 1 == each.offset and (not each.topic or each.topic == before.topic):
            found[-1] = QueueGap(before.first, each.offset, before.count + 1, before.topic, before.reason)
        else:
            found.append(QueueGap(each.offset, each.offset, 1, each.topic or topic, each.reason))
    return found


def content(queue: QueueId, gap: QueueGap, *, id: str, at: str) -> bytes:
    """The gap record in the outbox's stored form; ``at`` is RFC 3339."""
    body = _GapBody(str(queue), gap.first, gap.last, gap.count, gap.reason)
    message = envelope.StoredMessage(
        id=id,
        source=SOURCE,
        enqueued_at=at,
        properties={},
        system_properties=_SYSTEM,
        body=msgspec.Raw(msgspec.json.encode(body)),
    )
    return envelope.stored(message)
