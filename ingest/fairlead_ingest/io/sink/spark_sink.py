"""The Spark sinks ``fairlead_delta`` and ``fairlead_parquet``: tasks write files, the driver commits them, once.

    write (each task)   rows → files of good rows, files of dead letters, counts
    commit (driver)     dead letters, then gaps, then rows: the rows' commit carries batch and positions and comes last,
                        so whatever is tried again finds its companions already in and adds only what they lack,
                        compared by content (``companions``)

``abort`` does nothing on purpose: Spark also calls it after a commit that failed after having committed, and deleting
files then would break the table. Vacuum takes the orphans.
"""

from __future__ import annotations

import datetime
import errno
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from fairlead_ingest import errors
from fairlead_ingest.io.checkpoint import spark_checkpoint, unread_notes
from fairlead_ingest.io.sink import side_tables
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.files import PartitionedFiles, WrittenFile
from fairlead_ingest.io.table.table_format import Kind
from fairlead_ingest.rows import envelope, evolution, transforms
from fairlead_ingest.rows import schema as contract
from fairlead_ingest.source import gaps
from fairlead_ingest.source.offsets import EXPIRED, Offsets
from fairlead_ingest.table import commit, freshness
from fairlead_ingest.table.commit import AlreadyIn, Collided
from fairlead_ingest.table.commit_info import NO_COUNTS, BatchCounts

# Whoever collides this often in a row is one of several jobs on one table.
COLLISIONS_MAX = 20
BATCH_PROPERTY = "streaming.sql.batchId"
NO_BATCH = -1


@dataclass
class Written(WriterCommitMessage):
    """What one task has on disk."""

    rows: list[WrittenFile] = field(default_factory=list)
    dead: list[WrittenFile] = field(default_factory=list)
    ages: list[int] = field(default_factory=list)
    # Fields of bodies that have no column, and the type for each; only where the table may grow by them.
    fields: dict[str, str] = field(default_factory=dict)


class DeltaSink(DataSource):
    """Options: ``table`` and, for a stream, ``checkpoint`` (folders this machine can reach), ``onExpired``; ``evolve``:
    ``true`` where the table may grow by what bodies bring; ``selects``: ``true`` where the query leaves rows out;
    ``trial``: ``true`` for a batch that is written and thrown away."""

    kind = "delta"

    @classmethod
    def name(cls) -> str:
        return format_of(cls.kind)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        return StreamWriter(
            kind=self.kind,
            table=Path(self._required("table")),
            checkpoint_path=Path(self._required("checkpoint")),
            on_expired=self.options.get("onExpired", "count"),
            evolves=self.options.get("evolve") == "true",
            selects=self.options.get("selects") == "true",
        )

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        if overwrite:
            raise errors.Stop(errors.BAD_OPTION, 'mode: only "append"; a table of rows is never overwritten')
        return BatchWriter(
            kind=self.kind,
            table=Path(self._required("table")),
            evolves=self.options.get("evolve") == "true",
            is_trial=self.options.get("trial") == "true",
        )

    def _required(self, name: str) -> str:
        value = self.options.get(name)
        if not value:
            raise errors.Stop(errors.BAD_OPTION, f"{name} is required")
        return value


class ParquetSink(DeltaSink):
    """The same into folders of plain Parquet files."""

    kind = "parquet"


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes one stream into one table; the object travels to the tasks and holds nothing but names."""

    def __init__(
        self,
        *,
        kind: str,
        table: Path,
        checkpoint_path: Path,
        on_expired: str,
        evolves: bool = False,
        selects: bool = False,
    ) -> None:
        self._kind = kind
        self._table = table
        self._checkpoint = checkpoint_path
        self._on_expired = on_expired
        self._evolves = evolves
        self._selects = selects

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        batch = (context.getLocalProperty(BATCH_PROPERTY) if context else None) or NO_BATCH
        return _write(iterator, tables.of(self._kind), self._table, int(batch), evolves=self._evolves)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        written = [message for message in messages if isinstance(message, Written)]
        end, before = spark_checkpoint.end_of(self._checkpoint, batchId), None
        if batchId > 0 and spark_checkpoint.has(self._checkpoint, batchId - 1):
            # Spark also runs batches without new data, to let watermarks move; such a batch begins where it ends.
            before = spark_checkpoint.end_of(self._checkpoint, batchId - 1)
            end = end.since(before)
        application = spark_checkpoint.application(self._checkpoint)
        batch = _Batch(kind=tables.of(self._kind), application=application, number=batchId, end=end, before=before)
        if batch.is_in(self._table):
            return
        _grow(batch.kind, self._table, evolution.merged(message.fields for message in written))
        rows = [file for message in written for file in message.rows]
        dead = [file for message in written for file in message.dead]
        batch.append_dead_letters(tables.beside(self._table, tables.DEAD_LETTERS), dead)
        # Named by where the batch ends, as Spark logged it.
        logged = spark_checkpoint.end_of(self._checkpoint, batchId)
        known = unread_notes.known(unread_notes.folder_of(self._checkpoint, logged))
        absent = _absent(end, [*rows, *dead], known.rolled_back)
        with_topic = {topic: absent.pop(topic) for topic in known.recreated & absent.keys()}
        missing = gaps.of(
            end, on_expired=self._on_expired, missing={} if self._selects else absent, recreated=with_topic
        )
        batch.append_gaps(tables.beside(self._table, tables.GAPS), missing)
        counts = _counts(end, rows, dead, written, missing, sum(absent.values()), selects=self._selects)
        batch.append(self._table, rows, counts)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: see the module's docstring."""


class BatchWriter(DataSourceArrowWriter):
    """Writes a batch query into a table, as a backfill does: ``_batch`` is -1, positions stay as they are.

    ``is_trial``: whether it can be written is all that is asked; nothing is committed.
    """

    def __init__(self, *, kind: str, table: Path, evolves: bool = False, is_trial: bool = False) -> None:
        self._kind = kind
        self._table = table
        self._evolves = evolves
        self._is_trial = is_trial

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return _write(iterator, tables.of(self._kind), self._table, NO_BATCH, evolves=self._evolves)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._is_trial:
            return
        written = [message for message in messages if isinstance(message, Written)]
        kind = tables.of(self._kind)
        dead = [file for message in written for file in message.dead]
        if dead:
            _patiently(kind, tables.beside(self._table, tables.DEAD_LETTERS), dead)
        _patiently(kind, self._table, [file for message in written for file in message.rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """One batch of one stream, on its way into a table and its side tables."""

    kind: Kind
    application: str
    number: int
    end: Offsets
    before: Offsets | None = None

    def is_in(self, table: Path) -> bool:
        """The table holds it; refused where it cannot go in at all. Raises ``Stop``."""
        return isinstance(self._decide(table, NO_COUNTS, is_side_table=False), AlreadyIn)

    def append(self, table: Path, files: list[WrittenFile], counts: BatchCounts) -> None:
        """Rows, once, whoever else commits at the same time. Raises ``Stop``, ``Wait``."""
        self._append(table, lambda: files, counts, is_side_table=False)

    def append_dead_letters(self, table: Path, dead: list[WrittenFile]) -> None:
        """Those the table does not hold yet, once. Raises ``Stop``, ``Wait``."""
        if dead:
            self._append(table, lambda: side_tables.new_dead_letters(self.kind, table, dead, self.end))

    def append_gaps(self, table: Path, missing: list[gaps.GapRow]) -> None:
        """Those the table does not hold yet, once. Raises ``Stop``, ``Wait``."""

        def files() -> list[WrittenFile]:
            new = side_tables.new_gaps(self.kind, table, missing, self.end)
            return _gap_files(self.kind.writing(table), new, self.number) if new else []

        if missing:
            self._append(table, files)

    def _append(
        self,
        table: Path,
        files: Callable[[], list[WrittenFile]],
        counts: BatchCounts = NO_COUNTS,
        *,
        is_side_table: bool = True,
    ) -> None:
        for _ in range(COLLISIONS_MAX):
            decided = self._decide(table, counts, is_side_table=is_side_table)
            is_in = isinstance(decided, AlreadyIn)
            if is_in and not is_side_table:
                return
            # Looked at after deciding: what somebody commits in between collides with what was decided.
            new = files()
            if is_in and not new:
                return
            try:
                # A side table had this batch before it was tried again; only what it did not have then is added.
                return self.kind.append(table, new, tables.UNNUMBERED if isinstance(decided, AlreadyIn) else decided)
            except Collided:
                continue
        raise errors.Stop(errors.TABLE_TAKEN, f"{table}: other jobs commit to it all the time")

    def _decide(self, table: Path, counts: BatchCounts, *, is_side_table: bool) -> commit.Append | AlreadyIn:
        return commit.decide(
            self.kind.state(table, self.application),
            application=self.application,
            batch=self.number,
            end=self.end,
            before=self.before,
            counts=counts,
            is_side_table=is_side_table,
        )


def format_of(kind: str) -> str:
    """The name by which Spark knows the sink into tables of this kind."""
    return f"fairlead_{kind}"


def _patiently(kind: Kind, table: Path, files: list[WrittenFile]) -> None:
    for _ in range(COLLISIONS_MAX):
        try:
            return kind.append(table, files, tables.UNNUMBERED)
        except Collided:
            continue
    raise errors.Stop(errors.TABLE_TAKEN, f"{table}: other jobs commit to it all the time")


def _grow(kind: Kind, table: Path, fields: dict[str, str]) -> None:
    """Add a column for each of ``fields``. Raises ``Wait`` where there are new ones: the batch has none of them yet."""
    if not fields:
        return
    more = evolution.columns(fields, tables.existing(kind, table).schema.names)
    if more.names:
        kind.ensure(table, more)
        raise errors.Wait(errors.SCHEMA_GREW, f"{table}: new columns {', '.join(more.names)}; the batch is read again")


def _write(
    iterator: Iterator[pa.RecordBatch], kind: Kind, table: Path, batch: int, *, evolves: bool = False
) -> Written:
    good = kind.writing(table)
    dead = kind.writing(tables.beside(table, tables.DEAD_LETTERS))
    ages: list[list[int]] = []
    fields: dict[str, str] = {}
    try:
        for record_batch in iterator:
            rows = pa.Table.from_batches([record_batch])
            # Beside the day, where the contract has it; Spark itself does not know the number.
            rows = rows.add_column(
                rows.column_names.index("_date"), "_batch", pa.repeat(pa.scalar(batch, pa.int64()), rows.num_rows)
            )
            kept, rejected = _sift(rows)
            if kept.num_rows:
                ages.append(_ages(kept, time.time()))
                good.add(kept)
                if evolves and "body" in kept.column_names:
                    found = evolution.unknown(kept["body"].to_pylist(), kept.column_names)
                    fields = evolution.merged([fields, found])
            if rejected.num_rows:
                dead.add(rejected)
        return Written(rows=good.close(), dead=dead.close(), ages=freshness.add(ages), fields=fields)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise errors.Wait(errors.DISK_FULL, f"{table}: {error}") from error
        raise


def _sift(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Good rows without their passengers, and dead letters in the dead letters' columns."""
    if "_error" not in rows.column_names:
        return rows, rows.slice(0, 0)
    bad = pc.is_valid(rows["_error"])
    if not pc.any(bad).as_py():
        return rows.drop_columns(list(transforms.PASSENGERS)), rows.slice(0, 0)
    kept = rows.filter(pc.invert(bad)).drop_columns(list(transforms.PASSENGERS))
    rejected = rows.filter(bad)
    # Typed columns are looked at for whether they are there, never for what they are: Python cannot hold every date.
    plain = [name for name in envelope.LETTER_COLUMNS if name in rejected.column_names]
    letters = rejected.select(plain).to_pylist()
    payloads = [
        envelope.payload_again(letter) if letter["_payload"] is None else letter["_payload"] for letter in letters
    ]
    typed = [name for name in kept.column_names if name not in contract.OWN_COLUMNS]
    nulls = [(name, pc.is_null(rejected[name]).to_pylist()) for name in typed]
    said = []
    for index, letter in enumerate(letters):
        empty = {name for name, is_null in nulls if is_null[index]}
        said.append(contract.with_places(letter["_error"], letter.get("body"), empty))
    columns = {name: rejected[name] for name in tables.DEAD_LETTERS_SCHEMA.names if name.startswith("_")}
    columns |= {"error": pa.array(said, pa.string()), "payload": pa.array(payloads, pa.binary())}
    return kept, pa.table({name: columns[name] for name in tables.DEAD_LETTERS_SCHEMA.names})


def _ages(rows: pa.Table, now: float) -> list[int]:
    if "enqueued_at" not in rows.column_names:
        return []
    moment = pa.scalar(int(now * 1_000_000), pa.timestamp("us", tz="UTC"))
    micros = pc.cast(pc.subtract(moment, rows["enqueued_at"].drop_null()), pa.int64())
    counts, below = [], 0
    for bound in freshness.BUCKETS:
        upto = pc.sum(pc.less_equal(micros, int(bound * 1_000_000))).as_py() or 0
        counts.append(upto - below)
        below = upto
    return [*counts, len(micros) - below]


def _absent(end: Offsets, files: list[WrittenFile], rolled_back: Mapping[str, int]) -> dict[str, int]:
    """By topic, how many messages were promised and neither came nor had been rolled back."""
    absent = {}
    for topic, offset in end.topics.items():
        came = sum(file.rows for file in files if file.topic == topic) + rolled_back.get(topic, 0)
        if offset.rows > came:
            absent[topic] = offset.rows - came
    return absent


def _counts(
    end: Offsets,
    rows: list[WrittenFile],
    dead: list[WrittenFile],
    written: list[Written],
    missing: list[gaps.GapRow],
    absent: int,
    *,
    selects: bool,
) -> BatchCounts:
    jumps = [offset.gap for offset in end.topics.values() if offset.gap is not None]
    return BatchCounts(
        rows=sum(file.rows for file in rows),
        dead_letters=sum(file.rows for file in dead),
        bytes=sum(file.size for file in rows),
        # What was promised and did not come had passed its time to live when it was read, unless the query leaves rows
        # out by itself: then that is what it did, and the few that expired in between cannot be told from them.
        filtered=absent if selects else 0,
        expired_unread=sum(offset.expired for offset in end.topics.values()) + (0 if selects else absent),
        expired_starts=sum(gap.reason == EXPIRED for gap in jumps),
        ages=freshness.add(message.ages for message in written),
        gaps=missing,
    )


def _gap_files(writing: PartitionedFiles, missing: list[gaps.GapRow], batch: int) -> list[WrittenFile]:
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
            "_topic": gap.topic,
            "_ingested_at": now,
            "_batch": batch,
            "_date": now.date(),
        }
        for gap in missing
    ]
    writing.add(pa.Table.from_pylist(plain, schema=tables.GAPS_SCHEMA))
    return writing.close()
