"""How much each namespace holds in a snapshot: what lives in topics, and what transactions keep for later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from fairlead_messaging.api.message_id import position_of
from fairlead_messaging.server.log import bulk, running_totals, topics
from fairlead_messaging.server.store.ordered_kv import Snapshot
from fairlead_messaging.server.transactions.transaction import TransactionsUnavailable, TransactionView

MESSAGE_BYTES = 64
"""What a message counts beside its payload: its key, its place in the log, its time to live."""


def size_of(count: int, payload_bytes: int) -> int:
    return payload_bytes + MESSAGE_BYTES * count


def take(snapshot: Snapshot, now_ms: int, counts: Callable[[str], bool]) -> dict[str, int]:
    """Of every namespace that ``counts``."""
    found: Counter[str] = Counter()
    for topic in topics.every(snapshot):
        if topic.exists and counts(topic.namespace):
            gone = running_totals.upto(snapshot, topic, position_of(bulk.last_expired(snapshot, topic, now_ms)))
            held = running_totals.everything(snapshot, topic).minus(gone)
            found[topic.namespace] += size_of(held.rows, held.size)
    try:
        open_ones = TransactionView(snapshot).in_progress.values()
    except TransactionsUnavailable:
        return dict(found)
    for transaction in open_ones:
        for touched in transaction.touched:
            if counts(touched.namespace):
                found[touched.namespace] += size_of(touched.pending_rows, touched.pending_bytes)
    return dict(found)
