"""What was accepted and cannot be sent as it was, because the disk changed it: counted, and recorded in its place.

    Damage (one message) ─group─▶ Gap (neighbours) ─content─▶ a message of its own in the topic they were for

The record's body is ``{"queue", "from_sequence", "to_sequence", "count", "reason"}``.  ``count`` is at most how many
are missing: of messages that were on their way when they were found damaged, some may have arrived.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from fairlead_edge.outbox import envelope
from fairlead_edge.outbox.queues import QueueId

SOURCE: Final = "/fairlead/gaps"
CODE: Final = "damaged"
"""The code of a dead letter that stands for missing messages whose topic is not known."""
_SYSTEM: Final[dict[str, str | None]] = {"contentType": "application/json", "contentEncoding": "utf-8"}


class Damage(msgspec.Struct, frozen=True):
    """One message that differs from what was accepted; ``topic`` is "" if that is lost, too."""

    offset: int
    topic: str
    reason: str


class QueueGap(msgspec.Struct, frozen=True):
    """Messages that are missing from a queue, first to last; ``count`` of them at most."""

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
    """Neighbours of one topic are one gap, with the first one's reason.

    A topic unknown is that of the neighbour before, else ``topic``, one that messages of the queue went to.
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
    """The message that says so, as the outbox stores messages; ``at`` is RFC 3339."""
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
