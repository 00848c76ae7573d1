"""What a batch may do to the table, decided from the table's own log.

A table remembers three things with every commit of ours: the last batch of each application (a transaction of its
log), the positions reached per topic, and which service they belong to. From these follow all promises of the sink:

- a batch already in the table is passed over (a crash between table commit and Spark's commit log);
- a batch that begins before what the table holds is refused: another job, or a reset checkpoint, would repeat rows;
- a batch that begins after it is refused too: the table was restored, deleted, or lost commits with the power;
- two jobs that commit at the same moment collide on its commit sequence: one is let in, the other looks again.

A table's log keeps what was taken back: after a RESTORE our newest commit may speak of rows that are gone. So history
is read from its newest end, and what a RESTORE jumped over is passed over here too.

    12 RESTORE to 7 · 11 batch · … · 8 batch · 7 batch        the newest of ours that counts is 7
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlead_ingest import errors
from fairlead_ingest.source.offsets import Offsets, TopicOffset
from fairlead_ingest.table import commit_info
from fairlead_ingest.table.commit_info import METADATA_KEY, NO_COUNTS, BatchCounts, CommitInfo, TableTotals
from fairlead_wire.errors import Temporary

# The transaction every writer of the table takes: two at once collide instead of both appending. One for all topics,
# because the positions of all of them lie in the newest commit. Its name is stored in every table's log.
COMMIT_SEQUENCE = "fairlead:turn"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """What the table's log says now. ``batch``: our application's last, -1 for none; ``reached``: places per topic."""

    batch: int = -1
    reached: Offsets = field(default_factory=Offsets)
    # How many batches of ours were committed, by any job; 0 for a new table.
    commit_sequence: int = 0
    totals: TableTotals = field(default_factory=TableTotals)
    # The log no longer reaches back to a commit of ours: ``reached`` is what rows say, which may be less than was read.
    is_cut: bool = False

    def holds(self, end: Offsets) -> bool:
        """Everything up to ``end`` is in it."""
        return not any(
            _is_short(self.reached.topics.get(topic), offset.generation, offset.position)
            for topic, offset in end.topics.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Add the batch's files in one commit with these transactions; ``info`` None: a commit of no batch."""

    transactions: dict[str, int] = field(default_factory=dict)
    info: CommitInfo | None = None

    @property
    def metadata(self) -> dict[str, Any]:
        """What the table's log stores with the commit."""
        return {} if self.info is None else {METADATA_KEY: self.info.to_dict()}

    def follows(self, commit_sequence: int) -> bool:
        """No other writer committed since this was decided: ``commit_sequence`` is the table's now. Always true for a
        commit of no batch."""
        return self.transactions.get(COMMIT_SEQUENCE, commit_sequence + 1) == commit_sequence + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyIn:
    """The table holds this batch; do nothing and say yes."""


class Collided(Temporary):
    """Another writer committed since the state was looked at; look again and decide again.

    ``unanswered``: it may also be the store, which gave no answer, or that of being busy.
    """

    def __init__(self, message: str, unanswered: errors.Wait | None = None) -> None:
        super().__init__(message)
        self.unanswered = unanswered


def application_id(query_id: str) -> str:
    """One checkpoint's application: batch numbers restart with a new checkpoint, so its identity is in the name."""
    return f"fairlead:{query_id}"


def decide(
    state: TableState,
    *,
    application: str,
    batch: int,
    end: Offsets,
    counts: BatchCounts = NO_COUNTS,
    before: Offsets | None = None,
    is_side_table: bool = False,
    checkpoint: str = "",
) -> Append | AlreadyIn:
    """What to do with ``batch`` that ends at ``end``. Raises ``Stop`` when appending it would repeat or miss rows.

    ``before``: where this checkpoint's batch before ended, None for its first. ``is_side_table``: a table beside the
    rows gets few of the batches and gets them first, so it may well be behind, and ahead where a checkpoint was lost in
    between; the caller leaves out what it holds, and its places never go back. ``checkpoint``: where it is copied to.
    """
    # The number alone is not enough: a table that was restored still knows numbers of batches that are gone from it.
    if state.batch >= batch and (state.is_cut or state.holds(end)):
        return AlreadyIn()
    if state.reached.service and end.service and state.reached.service != end.service:
        raise errors.Stop(
            errors.OTHER_SERVICE,
            f"the table was filled from messaging service {state.reached.service}, this batch comes from {end.service}",
        )
    for topic, offset in end.topics.items() if not is_side_table else ():
        held = state.reached.topics.get(topic)
        if held is not None and is_ahead(state.reached, topic, offset):
            raise errors.Stop(
                errors.TABLE_TAKEN,
                f"the table already holds {topic} up to {held.position}, this batch begins after"
                f" {offset.start_position or 'the start'}: another job or a backfill brought them, or this checkpoint"
                " is older than it. Stop the other job, or start with a new checkpoint (it goes on from the table)",
            )
        is_first = held is None and (before is None or topic not in before.topics)
        if not is_first and not state.is_cut and _is_short(held, offset.start_generation, offset.start_position):
            raise _behind(topic, held, offset.start_position)
    topics = {**state.reached.topics}
    for topic, offset in end.topics.items():
        if not (is_side_table and is_ahead(state.reached, topic, offset, of_end=True)):
            topics[topic] = offset.at_rest()
    reached = Offsets(service=end.service or state.reached.service, topics=topics)
    return Append(
        transactions={application: batch, COMMIT_SEQUENCE: state.commit_sequence + 1},
        info=CommitInfo(
            reached=reached,
            application=application,
            batch=batch,
            checkpoint=checkpoint,
            sequence=state.commit_sequence + 1,
            totals=state.totals.plus(counts),
            counts=counts,
        ),
    )


def of_no_batch(state: TableState, application: str) -> Append:
    """A commit beside the batches of streams, a backfill's or a repair's.

    It takes the table's commit sequence, so that a writer that looked before it collides. Positions stay where they
    are, and are said again where the log says them.
    """
    sequence, info = state.commit_sequence + 1, None
    if state.reached.service and not state.is_cut:
        info = CommitInfo(reached=state.reached, application=application, sequence=sequence, totals=state.totals)
    return Append(transactions={COMMIT_SEQUENCE: sequence}, info=info)


def left_to_job(state: TableState) -> dict[str, str]:
    """By topic, the position after which messages are a job's: it brings them when it goes on. Others are free.

    Where only rows say how far the table goes, a job goes on from the highest, so that nothing is left to it.
    """
    return {
        topic: offset.position
        for topic, offset in state.reached.topics.items()
        if offset.generation or not offset.position
    }


def check_goes_on(state: TableState, last: Offsets) -> None:
    """Raises ``Stop`` where a checkpoint whose last batch ended at ``last`` cannot go on with the table."""
    for topic, offset in last.topics.items():
        held = state.reached.topics.get(topic)
        if not state.is_cut and _is_short(held, offset.generation, offset.position):
            raise _behind(topic, held, offset.position)


def _is_short(held: TopicOffset | None, generation: int, position: str) -> bool:
    """``held`` ends before ``position`` of that generation; a generation of 0 stands for any."""
    if not position:
        return False
    if held is None:
        return True
    if held.generation and generation and held.generation != generation:
        return held.generation < generation
    return held.position < position


def _behind(topic: str, held: TopicOffset | None, position: str) -> errors.Stop:
    return errors.Stop(
        errors.TABLE_BEHIND,
        f"the table holds {topic} up to {(held and held.position) or 'nothing'}, this checkpoint goes on after"
        f" {position}: the table was restored, replaced, deleted or is not mounted, or lost its last commits. Bring it"
        " back, or start with a new checkpoint (it goes on from what the table holds)",
    )


def is_ahead(reached: Offsets, topic: str, offset: TopicOffset, *, of_end: bool = False) -> bool:
    """``reached`` goes further in ``topic`` than where the batch that ends at ``offset`` begins, or than its end."""
    held = reached.topics.get(topic)
    if held is None:
        return False
    generation, position = (
        (offset.generation, offset.position) if of_end else (offset.start_generation, offset.start_position)
    )
    if held.generation in (0, generation):
        return held.position > position
    # A topic that was deleted and made again since: what the table holds of it comes after all of the old one.
    return 0 < generation < held.generation


def starting(configured: Mapping[str, Any], reached: Offsets) -> dict[str, Any]:
    """Where a fresh checkpoint begins: the table's own position where it has one, else what was configured.

    A table that holds part of a topic is no first start: beginning again would repeat its rows.
    """
    begin: dict[str, Any] = {}
    for topic, start in configured.items():
        held: TopicOffset | None = reached.topics.get(topic)
        if held is None:
            begin[topic] = "earliest" if start == "table" else start
            continue
        begin[topic] = held.to_starting()
    return begin


_REPLACED = ("CLONE", "CONVERT", "REPLACE TABLE", "CREATE OR REPLACE TABLE", "TRUNCATE")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestCounting:
    """``info``: what our newest commit that counts says, None where there is none.

    ``is_replaced``: others put the whole content there, so only the rows say how far they go.
    """

    info: CommitInfo | None = None
    is_replaced: bool = False


def newest(entries: Iterable[Mapping[str, Any]]) -> NewestCounting:
    """Our newest commit in the current version's line; ``entries`` of a table's history come newest first."""
    version_max: int | None = None
    time_max: int | None = None
    for entry in entries:
        if version_max is not None and entry["version"] > version_max:
            continue
        if time_max is not None and entry["timestamp"] > time_max:
            continue
        version_max = time_max = None
        operation, parameters = str(entry.get("operation", "")), entry.get("operationParameters") or {}
        if operation == "RESTORE":
            try:
                version_max, time_max = _target(parameters)
            except ValueError:
                return NewestCounting(is_replaced=True)
            continue
        info = commit_info.read_commit_info(entry)
        if info is not None:
            return NewestCounting(info=info)
        if operation.startswith(_REPLACED) or _overwrites(operation, parameters):
            return NewestCounting(is_replaced=True)
    return NewestCounting()


def _target(parameters: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """(version, milliseconds since 1970), one of them. Raises ``ValueError`` where neither can be read."""
    version = parameters.get("version")
    if version is not None:
        return int(version), None
    moment = str(parameters.get("datetime") or parameters.get("timestamp") or "")
    if moment.isdigit():
        return None, int(moment)
    aware = datetime.datetime.fromisoformat(moment)
    return None, int((aware if aware.tzinfo else aware.replace(tzinfo=datetime.UTC)).timestamp() * 1000)


def _overwrites(operation: str, parameters: Mapping[str, Any]) -> bool:
    """The whole table; a part that was named by a condition is a correction."""
    is_whole = not parameters.get("predicate") and not parameters.get("replaceWhere")
    return operation == "WRITE" and str(parameters.get("mode", "")).lower() == "overwrite" and is_whole
