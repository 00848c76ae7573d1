"""The next messages to push for a subscription, and how many expired in between.

Unlike a reader's page it counts expired messages for each gap between messages, so that the write which moves the
position over a gap counts them once, whatever fails in between.  Aborted messages are not counted; an uncommitted one
ends the page unless it has expired.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from fairlead_messaging.api.message_id import (
    POSITION_BYTES,
    MessageId,
    PositionBytes,
    id_of,
    last_of,
    position_of,
    timestamp_of,
)
from fairlead_messaging.server.log import keys, rows, running_totals
from fairlead_messaging.server.log.rows import RowState
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.store.ordered_kv import Snapshot
from fairlead_messaging.server.transactions import visibility
from fairlead_messaging.server.transactions.transaction import TransactionView

JUDGED_ROWS_MAX = 50_000
"""After how many skipped rows a page ends early, so that the work of one read is bounded."""


class PushItem(NamedTuple):
    """A message to push until ``expires_ms``; ``expired`` messages are between the one before and this."""

    id: MessageId
    payload: bytes
    expires_ms: int
    expired: int = 0


@dataclass(slots=True, kw_only=True)
class PushPage:
    """``end`` is the end of the page, with ``expired`` messages after the last item; ``complete``: nothing follows."""

    items: list[PushItem] = field(default_factory=list)
    end: MessageId
    expired: int = 0
    complete: bool = False

    def is_enough(self, after: MessageId) -> bool:
        """Whether there is something to push or to count, or the page ended early after skipping many rows."""
        return bool(self.items) or self.end > after or not self.complete


def read(
    snapshot: Snapshot, topic: TopicGeneration, *, after: MessageId, limit: int, bytes_max: int, now_ms: int
) -> PushPage:
    """At most ``limit`` messages after an id, ended by ``bytes_max`` payload bytes."""
    page = PushPage(end=after)
    _count_removed(snapshot, topic, page)
    states = visibility.row_states(TransactionView(snapshot), None, read_committed=True)
    assert states is not None
    size = passed = 0
    prefix = keys.table(keys.MESSAGE, topic)
    for key, value in snapshot.scan(prefix + page.end[:POSITION_BYTES], keys.above(prefix)):
        position, row = keys.position(key), rows.decode(value)
        state = states(row.pointer) if row.pointer else RowState.COMMITTED
        if state is RowState.UNCOMMITTED and _has_living(snapshot, topic, position, row, page.end, now_ms):
            page.complete = True
            return page
        for message_id, payload, expires_ms in _messages(snapshot, topic, position, row, page.end):
            passed += 1
            if state is RowState.ABORTED:
                page.end = message_id
            elif now_ms > expires_ms:
                page.end, page.expired = message_id, page.expired + 1
            else:
                page.items.append(PushItem(message_id, payload, expires_ms, page.expired))
                page.end, page.expired = message_id, 0
                size += len(payload)
            if len(page.items) >= limit or size >= bytes_max or passed >= JUDGED_ROWS_MAX:
                return page
    page.complete = True
    return page


def find(snapshot: Snapshot, topic: TopicGeneration, message_id: MessageId, now_ms: int) -> PushItem | None:
    """A committed message by its id; None if it was removed or has expired."""
    position = position_of(message_id)
    value = snapshot.get(keys.table(keys.MESSAGE, topic) + position)
    if value is None:
        return None
    row = rows.decode(value)
    if row.is_reference:
        stored = snapshot.get(keys.payloads(topic, abs(row.pointer)) + message_id[POSITION_BYTES:])
        if stored is None:
            return None
        row = rows.decode(stored)
    expires_ms = _expires_ms(topic, position, row.ttl_seconds)
    return PushItem(message_id, row.payload, expires_ms) if now_ms <= expires_ms else None


def tombstone(ttl_seconds: int) -> bytes:
    """The row that cleaning leaves of a message that expired by its own ttl before all subscriptions counted it."""
    return rows.encode(b"", max(1, ttl_seconds))


def _count_removed(snapshot: Snapshot, topic: TopicGeneration, page: PushPage) -> None:
    """Count, by the running totals, messages that cleaning removed because it does not wait forever."""
    removed = snapshot.get(keys.table(keys.REMOVED, topic))
    if removed is None or removed <= page.end[:POSITION_BYTES]:
        return
    removed = PositionBytes(removed)
    before = running_totals.upto(snapshot, topic, position_of(page.end))
    gone = running_totals.upto(snapshot, topic, removed).minus(before)
    page.expired, page.end = gone.rows, last_of(removed)


def _has_living(
    snapshot: Snapshot,
    topic: TopicGeneration,
    position: PositionBytes,
    row: rows.MessageRow,
    after: MessageId,
    now_ms: int,
) -> bool:
    return any(now_ms <= expires_ms for _, _, expires_ms in _messages(snapshot, topic, position, row, after))


def _messages(
    snapshot: Snapshot, topic: TopicGeneration, position: PositionBytes, row: rows.MessageRow, after: MessageId
) -> Iterator[tuple[MessageId, bytes, int]]:
    """(id, payload, last millisecond of its life) of the messages of one row after an id."""
    if not row.is_reference:
        if id_of(position) > after:
            yield id_of(position), row.payload, _expires_ms(topic, position, row.ttl_seconds)
        return
    first, last = row.payload[:POSITION_BYTES], row.payload[POSITION_BYTES:]
    if position == after[:POSITION_BYTES]:
        first = max(first, after[POSITION_BYTES:])
    prefix = keys.payloads(topic, abs(row.pointer))
    if first < last:
        for key, value in snapshot.scan(prefix + first + b"\x00", prefix + last + b"\x00"):
            stored = rows.decode(value)
            yield id_of(position, keys.position(key)), stored.payload, _expires_ms(topic, position, stored.ttl_seconds)


def _expires_ms(topic: TopicGeneration, position: PositionBytes, ttl_seconds: int) -> int:
    """When a message expires: after its own ttl or the topic's, whichever is shorter."""
    return timestamp_of(position) + min(ttl_seconds or topic.ttl_seconds, topic.ttl_seconds) * 1000
