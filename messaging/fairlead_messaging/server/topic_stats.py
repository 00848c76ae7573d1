"""How each topic is doing, for metrics: how much it holds, who lags, and what holds its readers up."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead_messaging.api.message_id import position_of
from fairlead_messaging.api.responses import Reader
from fairlead_messaging.server import readers
from fairlead_messaging.server.log import bulk, running_totals, topics
from fairlead_messaging.server.store.ordered_kv import Snapshot
from fairlead_messaging.server.transactions import uncommitted
from fairlead_messaging.server.transactions.transaction import TransactionsUnavailable, TransactionView

TOPICS_MAX = 1000
"""Topics in one scrape; the alphabetically first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStats:
    """``messages`` and ``size`` (bytes) live in it.

    ``blocked_seconds``: age of its first uncommitted row; None while that cannot be known.
    """

    topic: str
    messages: int
    size: int
    blocked_seconds: float | None
    readers: list[Reader]


def take(snapshot: Snapshot, now_ms: int) -> list[TopicStats]:
    """Of every living topic."""
    view = _view(snapshot)
    found = []
    for topic in [each for each in topics.every(snapshot) if each.exists][:TOPICS_MAX]:
        gone = running_totals.upto(snapshot, topic, position_of(bulk.last_expired(snapshot, topic, now_ms)))
        held = running_totals.everything(snapshot, topic).minus(gone)
        blocked = uncommitted.first(snapshot, view, topic, now_ms=now_ms) if view is not None else None
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
