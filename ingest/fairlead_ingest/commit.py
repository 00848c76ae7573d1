"""What a batch may do to the table, decided from the table's own log.

A table remembers three things with every commit of ours: the last batch of each application (a Delta transaction), the
positions reached per topic, and which service they belong to. From these follow all promises of the sink:

- a batch already in the table is passed over (a crash between table commit and Spark's commit log);
- a batch that begins before what the table holds is refused: another job, or a reset checkpoint, would repeat rows;
- two jobs that commit at the same moment collide on the topic's own transaction, and one is refused by the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlead_ingest import errors, offsets
from fairlead_ingest.offsets import Offsets, Position

METADATA_KEY = "fairlead"
# Counts of one commit that also add up over the table's life.
TOTALS = ("rows", "dead_letters", "expired_unread", "expired_starts")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """What the table's log says now. ``batch``: our application's last, -1 for none; ``reached``: places per topic."""

    batch: int = -1
    reached: Offsets = field(default_factory=Offsets)
    # The last version of each topic's own transaction, 0 for none.
    turns: Mapping[str, int] = field(default_factory=dict)
    totals: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Add the batch's files in one commit with these transactions and this metadata."""

    transactions: dict[str, int]
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyIn:
    """The table holds this batch; do nothing and say yes."""


def application_id(query_id: str) -> str:
    """One checkpoint's application: batch numbers restart with a new checkpoint, so its identity is in the name."""
    return f"fairlead:{query_id}"


def turn_id(topic: str) -> str:
    """The transaction every writer of ``topic`` takes, so that two at once collide instead of both appending."""
    return f"fairlead:topic:{topic}"


def decide(
    state: TableState, *, application: str, batch: int, end: Offsets, counts: Mapping[str, Any]
) -> Append | AlreadyIn:
    """What to do with ``batch`` that ends at ``end``. Raises ``Stop`` when appending it could repeat rows."""
    if state.batch >= batch:
        return AlreadyIn()
    if state.reached.service and end.service and state.reached.service != end.service:
        raise errors.Stop(
            errors.OTHER_SERVICE,
            f"the table was filled from messaging service {state.reached.service}, this batch comes from {end.service}",
        )
    for topic, position in end.topics.items():
        held = state.reached.topics.get(topic)
        if held is not None and held.g in (0, position.fg) and position.f < held.p:
            raise errors.Stop(
                errors.TABLE_TAKEN,
                f"the table already holds {topic} up to {held.p}, this batch begins after {position.f or 'the start'}:"
                " another job writes the table, or this checkpoint is older than it. Stop the other job, or start with"
                " a new checkpoint (it goes on from the table)",
            )
    topics = {**state.reached.topics, **{name: place.rested() for name, place in end.topics.items()}}
    reached = Offsets(service=end.service or state.reached.service, topics=topics)
    turns = {turn_id(topic): state.turns.get(topic, 0) + 1 for topic in end.topics}
    return Append(
        transactions={application: batch, **turns},
        metadata={
            METADATA_KEY: {
                "reached": reached.to_dict(),
                "application": application,
                "batch": batch,
                "totals": {name: state.totals.get(name, 0) + counts.get(name, 0) for name in TOTALS},
                **counts,
            }
        },
    )


def ours_in(metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What we left in one commit's metadata, None where the commit is not ours."""
    ours = metadata.get(METADATA_KEY)
    return ours if isinstance(ours, Mapping) and "reached" in ours else None


def reached_in(metadata: Mapping[str, Any]) -> Offsets | None:
    """The positions in one commit's metadata, None where the commit is not ours."""
    ours = ours_in(metadata)
    return None if ours is None else offsets.parse(ours["reached"])


def starting(configured: Mapping[str, Any], reached: Offsets) -> dict[str, Any]:
    """Where a fresh checkpoint begins: the table's own position where it has one, else what was configured.

    A table that holds part of a topic is no first start: beginning again would repeat its rows.
    """
    begin: dict[str, Any] = {}
    for topic, start in configured.items():
        held: Position | None = reached.topics.get(topic)
        begin[topic] = {"g": held.g, "p": held.p} if held is not None else ("earliest" if start == "table" else start)
    return begin
