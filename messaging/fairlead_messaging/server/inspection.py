"""Inspects topics without consuming anything: rows with their state, and statistics of each topic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fairlead_messaging.api.message_id import POSITION_BYTES, MessageId, PositionBytes, id_of, position_of, timestamp_of
from fairlead_messaging.api.responses import Inspected, Reader
from fairlead_messaging.server import readers
from fairlead_messaging.server.log import bulk, keys, reader, rows, running_totals, topics
from fairlead_messaging.server.log.rows import RowState
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.store.ordered_kv import Snapshot
from fairlead_messaging.server.transactions import visibility
from fairlead_messaging.server.transactions.transaction import TransactionsUnavailable, TransactionView


def inspect(
    snapshot: Snapshot, topic: TopicGeneration, *, after: MessageId, limit: int, bytes_max: int, now_ms: int
) -> list[Inspected]:
    """At most ``limit`` rows after a position, oldest first, except those past the topic's ttl.

    It stops once ``bytes_max`` payload bytes are reached.
    """
    view = TransactionView(snapshot)
    states = visibility.row_states(view, None, read_committed=True)
    assert states is not None
    after = max(after, reader.oldest_live(topic, now_ms))
    prefix = keys.table(keys.MESSAGE, topic)
    found: list[Inspected] = []
    size = 0
    for key, value in snapshot.scan(prefix + after[:POSITION_BYTES], keys.above(prefix)):
        position, row = keys.position(key), rows.decode(value)
        state = _STATES[states(row.pointer)] if row.pointer else "visible"
        for message_id, stored in _messages(snapshot, topic, position, row, after):
            if len(found) >= limit or size >= bytes_max:
                return found
            size += len(stored.payload)
            published_ms = timestamp_of(position)
            expires_ms = published_ms + (stored.ttl_seconds or topic.ttl_seconds) * 1000
            found.append(
                Inspected(
                    id=message_id.hex(),
                    state="expired" if now_ms > expires_ms else state,
                    payload=stored.payload,
                    published_ms=published_ms,
                    ttl_seconds=min(stored.ttl_seconds or topic.ttl_seconds, topic.ttl_seconds),
                    transaction=abs(row.pointer) or None,
                )
            )
    return found


_STATES = {RowState.COMMITTED: "visible", RowState.UNCOMMITTED: "undecided", RowState.ABORTED: "hidden"}


def _messages(
    snapshot: Snapshot, topic: TopicGeneration, position: PositionBytes, row: rows.MessageRow, after: MessageId
) -> Iterator[tuple[MessageId, rows.MessageRow]]:
    """The messages of one row after an id: its own, or those of the payload rows it refers to."""
    if not row.is_reference:
        if id_of(position) > after:
            yield id_of(position), row
        return
    first, last = row.payload[:POSITION_BYTES], row.payload[POSITION_BYTES:]
    if position == after[:POSITION_BYTES]:
        first = max(first, after[POSITION_BYTES:])
    prefix = keys.payloads(topic, abs(row.pointer))
    if first < last:
        for key, value in snapshot.scan(prefix + first + b"\x00", prefix + last + b"\x00"):
            yield id_of(position, keys.position(key)), rows.decode(value)


# --- Statistics of topics.

TOPICS_MAX = 1000
"""How many topics one scrape shows, in alphabetical order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStats:
    """The ``messages`` in a topic and their ``size`` in bytes.

    ``blocked_seconds``: age of its first uncommitted row; None if that is unknown.
    """

    topic: str
    messages: int
    size: int
    blocked_seconds: float | None
    readers: list[Reader]


def topic_stats(snapshot: Snapshot, now_ms: int) -> list[TopicStats]:
    """Statistics of every existing topic."""
    view = _view(snapshot)
    found = []
    for topic in [each for each in topics.every(snapshot) if each.exists][:TOPICS_MAX]:
        gone = running_totals.upto(snapshot, topic, position_of(bulk.last_expired(snapshot, topic, now_ms)))
        held = running_totals.everything(snapshot, topic).minus(gone)
        blocked = visibility.first_uncommitted(snapshot, view, topic, now_ms=now_ms) if view is not None else None
        blocked_seconds = max(0.0, (now_ms - blocked.since_ms) / 1000) if blocked is not None else 0.0
        found.append(
            TopicStats(
                topic=f"{topic.namespace}/{topic.name}",
                messages=held.rows,
                size=held.size,
                blocked_seconds=blocked_seconds if view is not None else None,
                readers=readers.every(snapshot, topic, now_ms),
            )
        )
    return found


def _view(snapshot: Snapshot) -> TransactionView | None:
    try:
        return TransactionView(snapshot)
    except TransactionsUnavailable:
        return None
