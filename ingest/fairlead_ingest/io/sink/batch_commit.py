"""Commits a batch of a stream, or the files of a backfill, to a table exactly once, concurrently with other writers.

decide (``table.commit``) ─▶ append ─▶ done
   ▲                            │ collided
   └────────────────────────────┘

A backfill has left out rows that the table held when it started. Rows added since (by another backfill, a repair, or a
job started meanwhile) are found here by topic and id, and the commit takes the table's commit sequence
(``unique_append``):

    files of tasks ─▶ less rows the table has by now ─▶ less rows that belong to a job ───────▶ commit
                           ▲                                                                   │ collided
                           └───────────────────────────────────────────────────────────────────┘
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from fairlead_ingest import errors
from fairlead_ingest.io.sink import side_tables
from fairlead_ingest.io.sink.task_writer import NO_BATCH, Written
from fairlead_ingest.io.table import collisions, tables
from fairlead_ingest.io.table import files as parquet_files
from fairlead_ingest.io.table.files import PartitionedFiles, WrittenFile
from fairlead_ingest.io.table.table_format import TableFormat
from fairlead_ingest.io.table.unique_append import UniqueAppend
from fairlead_ingest.rows import fitting
from fairlead_ingest.source.gaps import GapRow
from fairlead_ingest.source.offsets import EXPIRED, Offsets
from fairlead_ingest.table import commit, commit_info
from fairlead_ingest.table.commit import AlreadyIn, TableState
from fairlead_ingest.table.commit_info import NO_COUNTS, BatchCounts, ContractUse
from fairlead_ingest.table.store_path import Place

# More collisions in a row than this mean that several jobs write one table.
COLLISIONS_MAX = 20
# How many gaps of a batch its commit records; the gaps table has all of them.
GAPS_NAMED_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCommit:
    """The batch that ends at ``end``; ``before`` is the end of the previous one, None for a checkpoint's first.

    ``checkpoint`` is the store path the checkpoint is copied to, "" if it is not copied.
    """

    table_format: TableFormat
    application: str
    number: int
    end: Offsets
    before: Offsets | None = None
    checkpoint: str = ""

    def is_in(self, table: Place) -> bool:
        """Whether the table holds the batch. Raises ``Stop`` if it cannot be committed at all."""
        state = self._state(table, is_side_table=False)
        return isinstance(self._decide(state, NO_COUNTS, is_side_table=False), AlreadyIn)

    def append(self, table: Place, files: list[WrittenFile], counts: BatchCounts) -> None:
        """Commit the rows, once. Raises ``Stop``, ``Wait``."""
        self._append(table, lambda: files, counts, is_side_table=False)

    def append_dead_letters(self, table: Place, dead: list[WrittenFile]) -> None:
        """Commit the dead letters that the table does not hold yet. Raises ``Stop``, ``Wait``."""
        if dead:
            self._append(table, lambda: side_tables.new_dead_letters(self.table_format, table, dead, self.end))

    def append_gaps(self, table: Place, missing: list[GapRow]) -> None:
        """Commit the gaps that the table does not hold yet. Raises ``Stop``, ``Wait``."""

        def files() -> list[WrittenFile]:
            new = side_tables.new_gaps(self.table_format, table, missing, self.end)
            return gap_files(self.table_format.writing(table), new, self.number) if new else []

        if missing:
            self._append(table, files)

    def _append(
        self,
        table: Place,
        files: Callable[[], list[WrittenFile]],
        counts: BatchCounts = NO_COUNTS,
        *,
        is_side_table: bool = True,
    ) -> None:
        def attempt() -> None:
            state = self._state(table, is_side_table=is_side_table)
            decided = self._decide(state, counts, is_side_table=is_side_table)
            is_in = isinstance(decided, AlreadyIn)
            if is_in and not is_side_table:
                return
            # Read the table after deciding, so that a commit of another writer in between collides.
            new = files()
            if is_in and not new:
                return
            if isinstance(decided, AlreadyIn):
                # The side table holds an earlier attempt of this batch; add only what it lacks, without a number.
                decided = commit.of_no_batch(state, self.application)
            self.table_format.append(table, new, decided)

        collisions.retried(table, attempt, tries=COLLISIONS_MAX)

    def _decide(self, state: TableState, counts: BatchCounts, *, is_side_table: bool) -> commit.Append | AlreadyIn:
        return commit.decide(
            state,
            application=self.application,
            batch=self.number,
            end=self.end,
            before=self.before,
            counts=counts,
            is_side_table=is_side_table,
            checkpoint=self.checkpoint,
        )

    def _state(self, table: Place, *, is_side_table: bool) -> TableState:
        """The table's state. For topics without a position in the log, rows past the beginning of the batch count as
        the position: a backfill added them, and a job that started meanwhile would add them again."""
        state = self.table_format.state(table, self.application)
        unknown = [topic for topic in self.end.topics if topic not in state.reached.topics]
        if is_side_table or not unknown:
            return state
        highest = self.table_format.highest_ids(table)
        beyond = [topic for topic in unknown if highest.get(topic, "") > self.end.topics[topic].start_position]
        if not beyond:
            return state
        # The statistics of files may be wider than their rows.
        found = tables.reached(self.table_format, table, beyond)
        ahead = {
            topic: held
            for topic, held in found.topics.items()
            if topic in beyond and commit.is_ahead(found, topic, self.end.topics[topic])
        }
        reached = Offsets(service=state.reached.service, topics={**state.reached.topics, **ahead})
        return dataclasses.replace(state, reached=reached)


def add_columns(table_format: TableFormat, table: Place, fields: dict[str, str]) -> None:
    """Add columns for ``fields``. Raises ``Wait`` if any was added, because the batch was written without it."""
    if not fields:
        return
    more = fitting.new_columns(fields, tables.existing(table_format, table).schema.names)
    if more.names:
        table_format.ensure(table, more)
        named = ", ".join(more.names)
        raise errors.Wait(errors.SCHEMA_GREW, f"{table}: new columns {named}; the batch will be read again")


def missing_rows(
    end: Offsets, files: list[WrittenFile], rolled_back: Mapping[str, int], reports: Mapping[str, int]
) -> dict[str, int]:
    """The number of planned messages by topic that are neither in files, nor rolled back, nor gap records."""
    absent = {}
    for topic, offset in end.topics.items():
        came = sum(file.rows for file in files if file.topic == topic)
        came += rolled_back.get(topic, 0) + reports.get(topic, 0)
        if offset.rows > came:
            absent[topic] = offset.rows - came
    return absent


def counts_of(
    end: Offsets,
    rows: list[WrittenFile],
    dead: list[WrittenFile],
    written: list[Written],
    missing: list[GapRow],
    absent: int,
    *,
    selects: bool,
    reports: int = 0,
) -> BatchCounts:
    """The counts to record in the commit. ``missing``: the gaps; ``reports``: how many messages were gap records."""
    jumps = [offset.gap for offset in end.topics.values() if offset.gap is not None]
    return BatchCounts(
        rows=sum(file.rows for file in rows),
        dead_letters=sum(file.rows for file in dead),
        bytes=sum(file.size for file in rows),
        # Planned messages that are absent have expired, unless the query filters rows: then they count as filtered,
        # together with the few that expired.
        filtered=reports + (absent if selects else 0),
        expired_unread=sum(offset.expired for offset in end.topics.values()) + (0 if selects else absent),
        expired_starts=sum(gap.reason == EXPIRED for gap in jumps),
        ages=commit_info.add_ages(message.ages for message in written),
        gaps=missing[:GAPS_NAMED_MAX],
    )


def judged_by(counts: BatchCounts, contract: str, batch: int) -> BatchCounts:
    """The counts with the ``contract`` (name and version as JSON, empty for none) that judged the messages."""
    if not contract:
        return counts
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return msgspec.structs.replace(counts, contract=ContractUse(**msgspec.json.decode(contract), batch=batch, at=now))


def gap_files(writing: PartitionedFiles, missing: list[GapRow], batch: int) -> list[WrittenFile]:
    """Write rows of the gaps table; there are few enough for the driver."""
    now = datetime.datetime.now(datetime.UTC)
    plain = [
        {
            "reason": gap.reason,
            "from_generation": gap.from_generation,
            "from_position": gap.from_position,
            "to_generation": gap.to_generation,
            "to_position": gap.to_position,
            "rows": gap.rows,
            "node": gap.node,
            "queue": gap.queue,
            "from_sequence": gap.from_sequence,
            "to_sequence": gap.to_sequence,
            "count": gap.count,
            "_topic": gap.topic,
            "_ingested_at": now,
            "_batch": batch,
            "_date": now.date(),
        }
        for gap in missing
    ]
    writing.add(pa.Table.from_pylist(plain, schema=tables.GAPS_SCHEMA))
    return writing.close()


BACKFILL_APPLICATION = "fairlead:backfill"


def append_backfill(
    table_format: TableFormat, table: Place, rows: Sequence[WrittenFile], dead: Sequence[WrittenFile]
) -> tuple[int, int]:
    """Add the dead letters, then the rows, that the tables lack; the numbers of rows and letters added.

    Raises ``Stop``, ``Wait``.
    """
    letters = 0
    if dead:
        # Letters of batches that are not committed yet belong to the job, as rows do.
        bounds = commit.left_to_job(table_format.state(table, BACKFILL_APPLICATION))
        letters = _append_new(table_format, tables.beside(table, tables.DEAD_LETTERS), dead, bounds)
    return (_append_new(table_format, table, rows) if rows else 0), letters


def append_backfill_gaps(table_format: TableFormat, table: Place, reported: Sequence[GapRow]) -> None:
    """Add the losses reported by edge agents that the gaps table lacks. Raises ``Stop``, ``Wait``."""
    bounds = commit.left_to_job(table_format.state(table, BACKFILL_APPLICATION))
    wanted = [gap for gap in reported if gap.topic not in bounds or gap.from_position <= bounds[gap.topic]]
    if not wanted:
        return
    beside = tables.beside(table, tables.GAPS)
    table_format.ensure(beside, tables.GAPS_SCHEMA)

    def attempt() -> None:
        state = table_format.state(beside, BACKFILL_APPLICATION)
        new = side_tables.gaps_not_held(table_format, beside, wanted)
        if new:
            files = gap_files(table_format.writing(beside), new, NO_BATCH)
            table_format.append(beside, files, commit.of_no_batch(state, BACKFILL_APPLICATION))

    collisions.retried(beside, attempt, tries=COLLISIONS_MAX)


def _append_new(
    table_format: TableFormat, table: Place, files: Sequence[WrittenFile], bounds: Mapping[str, str] | None = None
) -> int:
    appending = UniqueAppend(table_format, table, BACKFILL_APPLICATION, parquet_files.identities(table, files))
    return appending.append_files(files, upto=commit.left_to_job if bounds is None else lambda _: bounds)
