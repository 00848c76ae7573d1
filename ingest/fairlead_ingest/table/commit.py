"""Decides from the table's own log whether a batch may be committed.

Each commit of ours records the last batch of its application (as a transaction in the log), the positions reached in
each topic, and the service they belong to. The guarantees of the sink follow from these:

- a batch that is already in the table is skipped (after a crash between the table's commit and Spark's);
- a batch that begins before the table's positions is refused: another job or a reset checkpoint would repeat rows;
- a batch that begins after them is refused too: the table was restored or deleted, or lost commits in a power failure;
- two jobs that commit at the same time collide on the commit sequence: one succeeds, the other reads and decides again.

The log also keeps reverted commits: after a RESTORE, our newest commit may be about rows that are gone. So history is
read from the newest entry back, and commits that a RESTORE reverted are skipped.

    12 RESTORE to 7 · 11 batch · … · 8 batch · 7 batch        our newest commit that counts is 7
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

# The transaction of every writer of the table, so that concurrent commits collide. There is one for all topics, because
# the newest commit has the positions of all of them. The name is stored in every table's log.
COMMIT_SEQUENCE = "fairlead:turn"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """The state from the table's log. ``batch`` is our application's last, or -1; ``reached`` are the positions."""

    batch: int = -1
    reached: Offsets = field(default_factory=Offsets)
    # How many commits of Fairlead jobs the table has; 0 for a new table.
    commit_sequence: int = 0
    totals: TableTotals = field(default_factory=TableTotals)
    # The log no longer has a commit of ours. ``reached`` is then derived from rows, and may be less than was read.
    is_cut: bool = False

    def holds(self, end: Offsets) -> bool:
        """Whether the table has everything up to ``end``."""
        return not any(
            _is_short(self.reached.topics.get(topic), offset.generation, offset.position)
            for topic, offset in end.topics.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Append files in one commit with these transactions; ``info`` is None for a commit without positions."""

    transactions: dict[str, int] = field(default_factory=dict)
    info: CommitInfo | None = None

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the commit in the table's log."""
        return {} if self.info is None else {METADATA_KEY: self.info.to_dict()}

    def follows(self, commit_sequence: int) -> bool:
        """Whether no other writer has committed since this was decided; ``commit_sequence`` is the table's current
        one. Always true for a commit without a sequence."""
        return self.transactions.get(COMMIT_SEQUENCE, commit_sequence + 1) == commit_sequence + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyIn:
    """The table already has this batch, so there is nothing to do."""


class Collided(Temporary):
    """Another writer committed since the state was read; read it and decide again.

    ``unanswered`` is set if the commit may also have failed because the store did not answer or was busy.
    """

    def __init__(self, message: str, unanswered: errors.Wait | None = None) -> None:
        super().__init__(message)
        self.unanswered = unanswered


def application_id(query_id: str) -> str:
    """The application of a checkpoint. It contains the checkpoint's id, as a new one starts again at batch 0."""
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
    """Decide about ``batch``, which ends at ``end``. Raises ``Stop`` if appending it would repeat or miss rows.

    ``before`` is the end of this checkpoint's previous batch, None for its first. ``is_side_table``: a side table gets
    only some batches, and before the rows, so it may be behind or (after losing a checkpoint) ahead; the caller leaves
    out what it already has, and its positions never go back. ``checkpoint`` is the store path it is copied to.
    """
    # The number alone is not enough: a restored table still has the numbers of reverted batches.
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
                f"the table already has {topic} up to {held.position}, but this batch begins after"
                f" {offset.start_position or 'the start'}: another job or a backfill added them, or this checkpoint is"
                " older than the table. Stop the other job, or start with a new checkpoint (it continues from the"
                " table)",
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
    """A commit outside a stream, as of a backfill or a repair.

    It takes the table's commit sequence, so that a writer that read the state before collides. Positions do not change;
    the commit repeats those in the log.
    """
    sequence, info = state.commit_sequence + 1, None
    if state.reached.service and not state.is_cut:
        info = CommitInfo(reached=state.reached, application=application, sequence=sequence, totals=state.totals)
    return Append(transactions={COMMIT_SEQUENCE: sequence}, info=info)


def left_to_job(state: TableState) -> dict[str, str]:
    """By topic, the position after which messages belong to a job that will read them; other topics are free.

    If positions are only derived from rows, a job would continue from the highest id, so nothing is left to it.
    """
    return {
        topic: offset.position
        for topic, offset in state.reached.topics.items()
        if offset.generation or not offset.position
    }


def check_goes_on(state: TableState, last: Offsets) -> None:
    """Raise ``Stop`` if the table is behind a checkpoint whose last batch ended at ``last``."""
    for topic, offset in last.topics.items():
        held = state.reached.topics.get(topic)
        if not state.is_cut and _is_short(held, offset.generation, offset.position):
            raise _behind(topic, held, offset.position)


def _is_short(held: TopicOffset | None, generation: int, position: str) -> bool:
    """Whether ``held`` ends before ``position`` of that generation; generation 0 means any."""
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
        f"the table has {topic} up to {(held and held.position) or 'nothing'}, but this checkpoint continues after"
        f" {position}: the table was restored, replaced, deleted or is not mounted, or lost its last commits. Bring it"
        " back, or start with a new checkpoint (it continues from the table)",
    )


def is_ahead(reached: Offsets, topic: str, offset: TopicOffset, *, of_end: bool = False) -> bool:
    """Whether ``reached`` is past the beginning (or with ``of_end``, the end) of the batch that ends at ``offset``."""
    held = reached.topics.get(topic)
    if held is None:
        return False
    generation, position = (
        (offset.generation, offset.position) if of_end else (offset.start_generation, offset.start_position)
    )
    if held.generation in (0, generation):
        return held.position > position
    # The topic was recreated since then: the table's position in the new generation is after all of the old one.
    return 0 < generation < held.generation


def starting(configured: Mapping[str, Any], reached: Offsets) -> dict[str, Any]:
    """Where a new checkpoint begins: at the table's own position if it has one, else at the configured one.

    Beginning again with a table that already has part of a topic would repeat rows.
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
    """Our newest commit that counts, ``info``, or None.

    ``is_replaced``: others replaced the contents, so positions must be derived from the rows.
    """

    info: CommitInfo | None = None
    is_replaced: bool = False


def newest(entries: Iterable[Mapping[str, Any]]) -> NewestCounting:
    """Our newest commit that the current version is based on; ``entries`` of the history come newest first."""
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
    """The target of a RESTORE: a version, or milliseconds since 1970. Raises ``ValueError`` if it has neither."""
    version = parameters.get("version")
    if version is not None:
        return int(version), None
    moment = str(parameters.get("datetime") or parameters.get("timestamp") or "")
    if moment.isdigit():
        return None, int(moment)
    aware = datetime.datetime.fromisoformat(moment)
    return None, int((aware if aware.tzinfo else aware.replace(tzinfo=datetime.UTC)).timestamp() * 1000)


def _overwrites(operation: str, parameters: Mapping[str, Any]) -> bool:
    """Whether a write replaces the whole table; replacing a part is only a correction."""
    is_whole = not parameters.get("predicate") and not parameters.get("replaceWhere")
    return operation == "WRITE" and str(parameters.get("mode", "")).lower() == "overwrite" and is_whole
