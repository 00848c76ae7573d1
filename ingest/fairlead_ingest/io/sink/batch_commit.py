"""One batch of one stream, or what a backfill has written, on its way into a table: once, also beside other writers.

decide (``table.commit``) ─▶ append ─▶ done
   ▲                            │ collided
   └────────────────────────────┘

A backfill has left out what the table held when it looked. What came since (a second backfill, a repair, a job that was
started meanwhile) is found here by topic and id, and the commit takes the table's commit sequence (``unique_append``):

    files of tasks ─▶ less what the table has by now ─▶ less what a job has begun to bring ─▶ commit
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

# More collisions in a row than this come from several jobs on one table.
COLLISIONS_MAX = 20
# Gaps of one batch that its commit names; the table of gaps has them all.
GAPS_NAMED_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCommit:
    """The batch that ends at ``end``; ``before`` is where the one before ended, None for a checkpoint's first.

    ``checkpoint``: where that is copied to, "" for nowhere.
    """

    table_format: TableFormat
    application: str
    number: int
    end: Offsets
    before: Offsets | None = None
    checkpoint: str = ""

    def is_in(self, table: Place) -> bool:
        """The table holds it; refused where it cannot go in at all. Raises ``Stop``."""
        state = self._state(table, is_side_table=False)
        return isinstance(self._decide(state, NO_COUNTS, is_side_table=False), AlreadyIn)

    def append(self, table: Place, files: list[WrittenFile], counts: BatchCounts) -> None:
        """Rows, once, also beside other writers. Raises ``Stop``, ``Wait``."""
        self._append(table, lambda: files, counts, is_side_table=False)

    def append_dead_letters(self, table: Place, dead: list[WrittenFile]) -> None:
        """Those the table does not hold yet, once. Raises ``Stop``, ``Wait``."""
        if dead:
            self._append(table, lambda: side_tables.new_dead_letters(self.table_format, table, dead, self.end))

    def append_gaps(self, table: Place, missing: list[GapRow]) -> None:
        """Those the table does not hold yet, once. Raises ``Stop``, ``Wait``."""

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
            # Looked at after deciding: what another writer commits in between collides with what was decided.
            new = files()
            if is_in and not new:
                return
            if isinstance(decided, AlreadyIn):
                # A side table had this batch before it was tried again; only what it did not have then is added.
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
        """Of a topic that the log does not name yet, rows that a backfill brought beyond where the batch begins say how
        far the table goes: a job that began while it ran would bring them again."""
        state = self.table_format.state(table, self.application)
        unknown = [topic for topic in self.end.topics if topic not in state.reached.topics]
        if is_side_table or not unknown:
            return state
        highest = self.table_format.highest_ids(table)
        beyond = [topic for topic in unknown if highest.get(topic, "") > self.end.topics[topic].start_position]
        if not beyond:
            return state
        # Bounds of files may be wider than their rows.
        found = tables.reached(self.table_format, table, beyond)
        ahead = {
            topic: held
            for topic, held in found.topics.items()
            if topic in beyond and commit.is_ahead(found, topic, self.end.topics[topic])
        }
        reached = Offsets(service=state.reached.service, topics={**state.reached.topics, **ahead})
        return dataclasses.replace(state, reached=reached)


def add_columns(table_format: TableFormat, table: Place, fields: dict[str, str]) -> None:
    """Add a column for each of ``fields``. Raises ``Wait`` where there are new ones: the batch has none of them yet."""
    if not fields:
        return
    more = fitting.new_columns(fields, tables.existing(table_format, table).schema.names)
    if more.names:
        table_format.ensure(table, more)
        raise errors.Wait(errors.SCHEMA_GREW, f"{table}: new columns {', '.join(more.names)}; the batch is read again")


def missing_rows(
    end: Offsets, files: list[WrittenFile], rolled_back: Mapping[str, int], reports: Mapping[str, int]
) -> dict[str, int]:
    """By topic, how many messages were promised and neither came (``reports``: as gap records) nor were rolled back."""
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
    """``missing``: the gaps to name in the commit; ``reports``: how many messages were gap records."""
    jumps = [offset.gap for offset in end.topics.values() if offset.gap is not None]
    return BatchCounts(
        rows=sum(file.rows for file in rows),
        dead_letters=sum(file.rows for file in dead),
        bytes=sum(file.size for file in rows),
        # What was promised and did not come had passed its time to live when it was read, unless the query leaves rows
        # out by itself: then that is what it did, and the few that expired in between are counted with them.
        filtered=reports + (absent if selects else 0),
        expired_unread=sum(offset.expired for offset in end.topics.values()) + (0 if selects else absent),
        expired_starts=sum(gap.reason == EXPIRED for gap in jumps),
        ages=commit_info.add_ages(message.ages for message in written),
        gaps=missing[:GAPS_NAMED_MAX],
    )


def judged_by(counts: BatchCounts, contract: str, batch: int) -> BatchCounts:
    """With the ``contract`` (name and version as JSON, empty for none) that judged them until now."""
    if not contract:
        return counts
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return msgspec.structs.replace(counts, contract=ContractUse(**msgspec.json.decode(contract), batch=batch, at=now))


def gap_files(writing: PartitionedFiles, missing: list[GapRow], batch: int) -> list[WrittenFile]:
    """Gap rows on disk; few enough for the driver."""
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
    """Rows, and before them dead letters, that the tables lack; how many of each went in. Raises ``Stop``, ``Wait``."""
    letters = 0
    if dead:
        # A letter of a batch that is not in yet is the job's, as its row would be.
        bounds = commit.left_to_job(table_format.state(table, BACKFILL_APPLICATION))
        letters = _append_new(table_format, tables.beside(table, tables.DEAD_LETTERS), dead, bounds)
    return (_append_new(table_format, table, rows) if rows else 0), letters


def append_backfill_gaps(table_format: TableFormat, table: Place, reported: Sequence[GapRow]) -> None:
    """What edge agents reported as lost and the table of gaps lacks. Raises ``Stop``, ``Wait``."""
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
