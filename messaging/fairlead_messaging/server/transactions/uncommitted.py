"""The first message a committed reader has to wait for: of an open transaction, alive, and behind the reader's start.

An expired message is waited for no longer, and what lies before the start concerns others.  A transaction remembers
where its rows in a topic begin and end; in between they are looked for, mostly found at once in the very first row.
"""

from __future__ import annotations

from fairlead_messaging.api.message_id import FIRST, POSITION_BYTES, MessageId, PositionBytes, id_of
from fairlead_messaging.server.log import keys, reader, rows
from fairlead_messaging.server.log.row_state import Uncommitted
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.store.ordered_kv import Snapshot
from fairlead_messaging.server.transactions.transaction import TransactionView

SCAN_ROWS_MAX = 50_000
"""Rows looked through.  Readers go on up to the last of them, and the next look starts where they are then."""


def first(
    snapshot: Snapshot, view: TransactionView, topic: TopicGeneration, *, now_ms: int, after: MessageId = FIRST
) -> Uncommitted | None:
    """The first uncommitted message with an id above ``after``; None when there is none."""
    spans = {pointer: (begin.encode(), end.encode()) for pointer, begin, end in view.spans(topic)}
    if not spans:
        return None
    start = max(after, reader.oldest_live(topic, now_ms))
    low = max(min(begin for begin, _ in spans.values()), start[:POSITION_BYTES])
    high = max(end for _, end in spans.values())
    if low > high:
        return None
    prefix = keys.table(keys.MESSAGE, topic)
    for looked, (key, value) in enumerate(snapshot.scan(prefix + low, prefix + high + b"\x00")):
        position = keys.position(key)
        if looked >= SCAN_ROWS_MAX:
            return Uncommitted(message_id=id_of(position), pointer=None)
        if not value[0] & rows.HAS_POINTER:
            continue
        row = rows.decode(value)
        if row.pointer in spans and _waits(snapshot, topic, position, row, start, now_ms):
            return Uncommitted(message_id=id_of(position), pointer=row.pointer)
    return None


def _waits(
    snapshot: Snapshot,
    topic: TopicGeneration,
    position: PositionBytes,
    row: rows.MessageRow,
    start: MessageId,
    now_ms: int,
) -> bool:
    """Whether an uncommitted row holds a message behind ``start`` that has not expired."""
    if not row.is_reference:
        return id_of(position) > start and not reader.is_expired(position, row.ttl_seconds, now_ms)
    low, upto = row.payload[:POSITION_BYTES], row.payload[POSITION_BYTES:]
    if position == start[:POSITION_BYTES]:
        low = max(low, start[POSITION_BYTES:])
    if low >= upto:
        return False
    prefix = keys.payloads(topic, row.pointer)
    stored = snapshot.scan(prefix + low + b"\x00", prefix + upto + b"\x00")
    # More payload rows than one look may cost count as living: they are over when their transaction is.
    return any(
        looked >= SCAN_ROWS_MAX or not reader.is_expired(position, rows.decode(value).ttl_seconds, now_ms)
        for looked, (_, value) in enumerate(stored)
    )
