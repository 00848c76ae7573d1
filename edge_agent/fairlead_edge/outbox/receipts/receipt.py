"""A receipt: what is known of one message.

    waiting        in a queue of this node
    in_topic       messaging stored it, as the hub confirmed
    in_table       a table has read beyond it: it has a row, or the job set it aside (dead letter, filter)
    expired, evicted, dead_lettered   it ended on this node

A message with several destinations has the state of the one that is least advanced; modules on this node do not count
if one destination is a topic.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead_edge.outbox.queues import QueueId, base
from fairlead_edge.outbox.receipts.departure import DepartedMessage, Departure, is_upto
from fairlead_edge.routes.endpoints import UPSTREAM
from fairlead_wire import message

# ---- how far tables have read ----------------------------------------------------------------------------------------
#
# The hub's latest report counts, even if a position went back: a table that was reset or refilled has read less than
# before, and its rows are gone.  Only one thing is carried over from earlier reports while they continue: the position
# after which every message got a row (``rows_after``).


class ReadingTable(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One table that is filled from the topic by one reader."""

    reader: str
    name: str
    start: str
    """Everything after it, up to ``position``, was read: a table may begin anywhere in its topic."""
    position: str
    batch: int | None = None
    version: int | None = None
    rowless: int | None = None
    rows_after: str | None = None
    """Every message after it, up to ``position``, got a row; None if unknown."""


class TopicReach(msgspec.Struct, frozen=True, kw_only=True):
    """``as_of``: when the hub reported it, on the store's clock."""

    topic: str
    service: str
    generation: int
    as_of: float
    tables: list[ReadingTable] = []


def updated(before: TopicReach | None, said: message.TopicTables, now: float) -> TopicReach:
    """The reach of a topic after this report of the hub."""
    known: dict[str, ReadingTable] = {}
    if before is not None and (before.service, before.generation) == (said.service, said.generation):
        known = {each.reader: each for each in before.tables}
    tables = [_reading_table(known.get(each.reader), each) for each in said.readers]
    return TopicReach(
        topic=said.topic,
        service=said.service,
        generation=said.generation,
        as_of=now,
        tables=sorted(tables, key=lambda each: each.reader),
    )


def went_back(before: TopicReach | None, after: TopicReach) -> Iterable[ReadingTable]:
    """The tables whose position went back."""
    if before is None or (before.service, before.generation) != (after.service, after.generation):
        return
    known = {each.reader: each for each in before.tables}
    for each in after.tables:
        earlier = known.get(each.reader)
        if earlier is not None and earlier.position and not is_upto(earlier.position, each.position):
            yield each


def is_of(departure: Departure, topic: TopicReach) -> bool:
    """Whether the positions belong to this topic, and not to one that was recreated or is of another service."""
    return (departure.topic, departure.service, departure.generation) == (topic.topic, topic.service, topic.generation)


def has_taken(entry: DepartedMessage, table: ReadingTable) -> bool:
    """Whether it was read for this table: it has a row, or the job set it aside."""
    if not is_upto(entry.position, table.position):
        return False
    return not table.start or (entry.is_exact and not is_upto(entry.position, table.start))


def has_row(entry: DepartedMessage, table: ReadingTable) -> bool:
    """Whether it has a row: it was read, and no message read with it lacks a row."""
    return (
        has_taken(entry, table)
        and entry.is_exact
        and table.rows_after is not None
        and not is_upto(entry.position, table.rows_after)
    )


def _reading_table(before: ReadingTable | None, said: message.TableReached) -> ReadingTable:
    rows_after: str | None = None
    if said.rowless is not None:
        rows_after = said.position
        if (
            before is not None
            and before.rows_after is not None
            and (before.name, before.rowless) == (said.table, said.rowless)
            and is_upto(before.position, said.position)
        ):
            rows_after = before.rows_after
    return ReadingTable(
        reader=said.reader,
        name=said.table,
        start=said.start,
        position=said.position,
        batch=said.batch,
        version=said.version,
        rowless=said.rowless,
        rows_after=rows_after,
    )


AHEAD_MAX: Final = 100_000
"""Messages ahead of a waiting one are counted up to this number."""
FINAL: Final = frozenset({"in_table", "expired", "evicted", "dead_lettered"})
_ORDER: Final = {"dead_lettered": 0, "evicted": 0, "expired": 0, "accepted": 1, "in_topic": 2, "in_table": 3}
NO_POSITION: Final = "the hub did not report the position of the message"
NO_REPORT: Final = "the hub has not reported how far tables have read this topic"
NO_TABLE: Final = "no table reads this topic, as far as the hub knows"
TOPIC_RECREATED: Final = "the topic was recreated, or is of another service: whether a table has the message is unknown"


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """It is in a queue.  Times are on the store's clock."""

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
        """The author part of its mark."""
        return self.entry.author


class DeadLettered(msgspec.Struct, frozen=True, kw_only=True):
    """It is a dead letter."""

    queue: QueueId
    topic: str
    number: int
    at: str
    code: str
    reason: str
    author: bytes


Way = Waiting | LeftQueue | DeadLettered


class TwoClocks(msgspec.Struct, frozen=True, kw_only=True):
    """The current time by the store's clock and by the wall clock."""

    store: float
    wall: datetime.datetime

    def text(self, then: float) -> str:
        """A time of the store's clock as RFC 3339."""
        moment = self.wall - datetime.timedelta(seconds=self.store - then)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def describe(
    id: str, ways: Sequence[Way], topics: Mapping[str, TopicReach], now: TwoClocks, *, is_online: bool
) -> dict[str, Any] | None:
    """The receipt; None if the message is unknown."""
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
    """The ways that this author may see."""
    return [each for each in ways if each.author == author]


def _topic(way: Way) -> str:
    return way.departure.topic if isinstance(way, LeftQueue) else way.topic


def _delivery(way: Way, topic: TopicReach | None, now: TwoClocks) -> dict[str, Any]:
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


def _in_topic(way: LeftQueue, topic: TopicReach | None, text: Callable[[float], str]) -> dict[str, Any]:
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
        return {**found, "note": NO_REPORT}
    if not topic.tables:
        return {**found, "note": NO_TABLE}
    if not is_of(departure, topic):
        return {**found, "note": TOPIC_RECREATED}
    tables = [_table(each, entry, text(topic.as_of)) for each in topic.tables]
    first = next((each for each in tables if each["in_table"]), None)
    return {**found, "state": "in_table" if first else "in_topic", "in_table": first, "tables": tables}


def _table(table: ReadingTable, entry: DepartedMessage, as_of: str) -> dict[str, Any]:
    return {
        "in_table": has_taken(entry, table),
        "reader": table.reader,
        "table": table.name,
        "position": table.position,
        "batch": table.batch,
        "version": table.version,
        "row": True if has_row(entry, table) else None,
        "as_of": as_of,
    }
