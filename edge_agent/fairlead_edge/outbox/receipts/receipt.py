"""A receipt: what is known of one message, put together from where it was found.

    waiting        in a queue of this node
    in_topic       messaging has it, and so said the hub
    in_table       a table has read beyond it: it has a row, or the job set it aside (dead letter, filter)
    expired, evicted, dead_lettered   it ended here

A message that goes several ways is as far as the one that is least far; ways to modules of this node do not count
where there is one to a topic.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead_edge.outbox.queue_id import QueueId, base
from fairlead_edge.outbox.receipts import reached
from fairlead_edge.outbox.receipts.departure import DepartedMessage, Departure
from fairlead_edge.routes.sink import UPSTREAM

AHEAD_MAX: Final = 100_000
"""What waits before a message is counted up to so many."""
FINAL: Final = frozenset({"in_table", "expired", "evicted", "dead_lettered"})
_ORDER: Final = {"dead_lettered": 0, "evicted": 0, "expired": 0, "accepted": 1, "in_topic": 2, "in_table": 3}
NO_POSITION: Final = "the hub did not say at which position the message stands"
NOT_TOLD: Final = "the hub has not said how far tables have read this topic"
NO_TABLE: Final = "no table reads this topic, as far as the hub knows"
MADE_ANEW: Final = "the topic was made anew since, or is another service's: whether a table has it is not known here"


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """It lies in a queue.  Times are of the store's clock."""

    queue: QueueId
    topic: str
    enqueued: float
    expires: float | None
    ahead: int
    in_flight: bool = False
    author: bytes


class LeftQueue(msgspec.Struct, frozen=True, kw_only=True):
    """It left a queue."""

    queue: QueueId
    departure: Departure
    entry: DepartedMessage

    @property
    def author(self) -> bytes:
        """Whose it is."""
        return self.entry.author


class DeadLettered(msgspec.Struct, frozen=True, kw_only=True):
    """It lies in the dead letters."""

    queue: QueueId
    topic: str
    number: int
    at: str
    code: str
    reason: str
    author: bytes


Way = Waiting | LeftQueue | DeadLettered


class TwoClocks(msgspec.Struct, frozen=True, kw_only=True):
    """Now, by the store's clock and by the wall's."""

    store: float
    wall: datetime.datetime

    def text(self, then: float) -> str:
        """A moment of the store's clock as RFC 3339."""
        moment = self.wall - datetime.timedelta(seconds=self.store - then)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def describe(
    id: str, ways: Sequence[Way], topics: Mapping[str, reached.TopicReach], now: TwoClocks, *, is_online: bool
) -> dict[str, Any] | None:
    """The answer; None where nothing is known of it."""
    if not ways:
        return None
    deliveries = [_delivery(way, topics.get(_topic(way)), now) for way in ways]
    upstream = [each for each in deliveries if each["endpoint"] == UPSTREAM] or deliveries
    least = min(upstream, key=lambda each: _ORDER[each["state"]])
    accepted = min(
        (
            each.entry.enqueued if isinstance(each, LeftQueue) else each.enqueued
            for each in ways
            if not isinstance(each, DeadLettered)
        ),
        default=None,
    )
    asked = [topics[topic].as_of for way in ways if (topic := _topic(way)) in topics]
    return {
        "id": id,
        "state": least["state"],
        "accepted": {
            "at": None if accepted is None else now.text(accepted),
            "age_seconds": None if accepted is None else round(max(0.0, now.store - accepted), 3),
        },
        "in_topic": least.get("in_topic"),
        "in_table": least.get("in_table"),
        "as_of": now.text(max(asked)) if asked else None,
        "online": is_online,
        "deliveries": deliveries,
    }


def may_see(ways: Sequence[Way], author: bytes) -> list[Way]:
    """Those of this author."""
    return [each for each in ways if each.author == author]


def _topic(way: Way) -> str:
    return way.departure.topic if isinstance(way, LeftQueue) else way.topic


def _delivery(way: Way, topic: reached.TopicReach | None, now: TwoClocks) -> dict[str, Any]:
    named: dict[str, Any] = {
        "endpoint": way.queue.endpoint,
        "priority": base(way.queue.priority),
        "topic": _topic(way) or None,
    }
    match way:
        case Waiting():
            is_over = way.expires is not None and way.expires <= now.store and not way.in_flight
            left = None if way.expires is None else round(max(0.0, way.expires - now.store), 3)
            waiting = {"ahead": way.ahead, "in_flight": way.in_flight, "expires_in_seconds": left}
            return {**named, "state": "expired" if is_over else "accepted", **waiting}
        case DeadLettered():
            letter = {"number": way.number, "at": way.at, "code": way.code, "reason": way.reason}
            return {**named, "state": "dead_lettered", "dead_letter": letter}
        case LeftQueue():
            if way.departure.outcome != "in_topic":
                return {**named, "state": way.departure.outcome, "at": now.text(way.departure.left_at)}
            return {**named, **_in_topic(way, topic, now.text)}


def _in_topic(way: LeftQueue, topic: reached.TopicReach | None, text: Callable[[float], str]) -> dict[str, Any]:
    departure, entry = way.departure, way.entry
    place = {
        "topic": departure.topic,
        "position": entry.position or None,
        "exact": entry.is_exact,
        "generation": departure.generation if entry.position else None,
        "service": departure.service or None,
        "at": text(departure.left_at),
    }
    found: dict[str, Any] = {"state": "in_topic", "in_topic": place, "in_table": None, "tables": []}
    if not entry.position:
        return {**found, "note": NO_POSITION}
    if topic is None:
        return {**found, "note": NOT_TOLD}
    if not topic.tables:
        return {**found, "note": NO_TABLE}
    if not reached.is_of(departure, topic):
        return {**found, "note": MADE_ANEW}
    tables = [_table(each, entry, text(topic.as_of)) for each in topic.tables]
    first = next((each for each in tables if each["in_table"]), None)
    return {**found, "state": "in_table" if first else "in_topic", "in_table": first, "tables": tables}


def _table(table: reached.ReadingTable, entry: DepartedMessage, as_of: str) -> dict[str, Any]:
    return {
        "in_table": reached.has_taken(entry, table),
        "reader": table.reader,
        "table": table.name,
        "position": table.position,
        "batch": table.batch,
        "version": table.version,
        "row": True if reached.has_row(entry, table) else None,
        "as_of": as_of,
    }
