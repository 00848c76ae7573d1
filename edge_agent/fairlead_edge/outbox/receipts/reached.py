"""How far tables have read topics, as the hub said last: the latest word counts, also where it goes back.

A table that was set back or filled anew has read less than before, and then its rows are not there.  One thing is kept
from earlier words while they go on: from which position on every message got a row (``rows_after``).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fairlead_edge.outbox.receipts.departure import DepartedMessage, Departure, is_upto
from fairlead_wire import message


class ReadingTable(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One table that is filled from the topic by one reader."""

    reader: str
    name: str
    start: str
    """All after it, up to ``position``, is taken: a table may begin anywhere in its topic."""
    position: str
    batch: int | None = None
    version: int | None = None
    rowless: int | None = None
    rows_after: str | None = None
    """After it, up to ``position``, no message was counted that got no row; None: it is not known."""


class TopicReach(msgspec.Struct, frozen=True, kw_only=True):
    """``as_of``: when the hub said so, by the store's clock."""

    topic: str
    service: str
    generation: int
    as_of: float
    tables: list[ReadingTable] = []


def updated(before: TopicReach | None, said: message.TopicTables, now: float) -> TopicReach:
    """What is known now that the hub said this."""
    known: dict[str, ReadingTable] = {}
    if before is not None and (before.service, before.generation) == (said.service, said.generation):
        known = {each.reader: each for each in before.tables}
    tables = [_table(known.get(each.reader), each) for each in said.readers]
    return TopicReach(
        topic=said.topic,
        service=said.service,
        generation=said.generation,
        as_of=now,
        tables=sorted(tables, key=lambda each: each.reader),
    )


def went_back(before: TopicReach | None, after: TopicReach) -> Iterable[ReadingTable]:
    """Tables that have read less than before."""
    if before is None or (before.service, before.generation) != (after.service, after.generation):
        return
    known = {each.reader: each for each in before.tables}
    for each in after.tables:
        earlier = known.get(each.reader)
        if earlier is not None and earlier.position and not is_upto(earlier.position, each.position):
            yield each


def is_of(departure: Departure, topic: TopicReach) -> bool:
    """Do their positions belong to the same topic, and not to one that was made anew or is another service's?"""
    return (departure.topic, departure.service, departure.generation) == (topic.topic, topic.service, topic.generation)


def has_taken(entry: DepartedMessage, table: ReadingTable) -> bool:
    """It was read for this table: it has a row, or was set aside."""
    if not is_upto(entry.position, table.position):
        return False
    return not table.start or (entry.is_exact and not is_upto(entry.position, table.start))


def has_row(entry: DepartedMessage, table: ReadingTable) -> bool:
    """It was read, and nothing that was read beside it lacks a row."""
    return (
        has_taken(entry, table)
        and entry.is_exact
        and table.rows_after is not None
        and not is_upto(entry.position, table.rows_after)
    )


def _table(before: ReadingTable | None, said: message.TableReached) -> ReadingTable:
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
