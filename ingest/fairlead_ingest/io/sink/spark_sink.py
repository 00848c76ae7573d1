"""The Spark sinks ``fairlead_delta`` and ``fairlead_iceberg``: tasks write, the driver commits.

    write (each task)   rows → files of good rows, files of dead letters, gap records, counts
    commit (driver)     dead letters, then gaps, then rows: the rows' commit records batch and positions and comes last,
                        so a retry adds to the side tables only what they lack, compared by content (``side_tables``)

``abort`` deliberately does nothing: Spark also calls it after a commit that succeeded but raised, and deleting files
then would break the table. Vacuum deletes the orphans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from fairlead_ingest import errors
from fairlead_ingest.io import worker_memory
from fairlead_ingest.io.checkpoint import batch_notes, checkpoint_mirror, spark_checkpoint
from fairlead_ingest.io.sink import batch_commit, batch_trace, side_tables, task_writer
from fairlead_ingest.io.sink.batch_commit import BatchCommit
from fairlead_ingest.io.sink.task_writer import NO_BATCH, Written
from fairlead_ingest.io.table import tables
from fairlead_ingest.rows import fitting
from fairlead_ingest.source import gaps
from fairlead_ingest.table import store_path
from fairlead_ingest.table.catalog import Catalog
from fairlead_ingest.table.store_path import Place, Storage, StorePath

BATCH_PROPERTY = "streaming.sql.batchId"


def place_options(table: Place, catalog: Catalog | None = None) -> dict[str, str]:
    """The options that name the table in a query; they contain no secrets."""
    options = {"table": str(table)}
    if isinstance(table, StorePath):
        options["storage"] = msgspec.json.encode(table.storage).decode()
    if catalog is not None:
        options["catalog"] = msgspec.json.encode(catalog).decode()
    return options


def mirror_options(place: StorePath | None) -> dict[str, str]:
    """The options that name the store path the checkpoint is copied to; empty if it is not copied."""
    if place is None:
        return {}
    return {"mirror": str(place), "mirrorStorage": msgspec.json.encode(place.storage).decode()}


def _storage(text: str) -> Storage:
    try:
        return msgspec.json.decode(text, type=Storage) if text else Storage()
    except msgspec.DecodeError as error:
        raise errors.Stop(errors.BAD_OPTION, f"storage: {error}") from None


def _catalog(text: str) -> Catalog | None:
    try:
        return msgspec.json.decode(text, type=Catalog) if text else None
    except msgspec.DecodeError as error:
        raise errors.Stop(errors.BAD_OPTION, f"catalog: {error}") from None


class DeltaSink(DataSource):
    """The sink for Delta tables. Its options:

    ``table``      a folder, or ``s3://bucket/path`` with the access settings in ``storage`` (JSON)
    ``checkpoint`` for a stream: its folder on this machine
    ``onExpired``  for a stream: what to do when messages expired before they were read
    ``evolve``     ``true`` if new fields of bodies may add columns
    ``selects``    ``true`` if the query filters rows
    ``mirror``     ``s3://bucket/path`` to copy the checkpoint to before each commit, with ``mirrorStorage`` (JSON)
    ``trial``      ``true`` for a batch that is written but not committed
    ``traces``     the settings table ``[traces]`` as JSON
    ``contract``   name and version of the contract that judged the messages, as JSON
    """

    table_format = "delta"

    @classmethod
    def name(cls) -> str:
        return format_of(cls.table_format)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        return StreamWriter(
            table_format=self.table_format,
            catalog=_catalog(self.options.get("catalog", "")),
            table=self._table(),
            checkpoint_path=Path(self._required("checkpoint")),
            mirror=self._mirror(),
            on_expired=self.options.get("onExpired", gaps.ON_EXPIRED[0]),
            evolves=self.options.get("evolve") == "true",
            selects=self.options.get("selects") == "true",
            traces=self.options.get("traces", ""),
            contract=self.options.get("contract", ""),
        )

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        if overwrite:
            raise errors.Stop(errors.BAD_OPTION, 'mode: only "append" is allowed; the sink never overwrites a table')
        return BatchWriter(
            table_format=self.table_format,
            catalog=_catalog(self.options.get("catalog", "")),
            table=self._table(),
            evolves=self.options.get("evolve") == "true",
            is_trial=self.options.get("trial") == "true",
        )

    def _table(self) -> Place:
        try:
            return store_path.place(self._required("table"), _storage(self.options.get("storage", "")))
        except ValueError as error:
            raise errors.Stop(errors.BAD_OPTION, f"table: {error}") from None

    def _mirror(self) -> StorePath | None:
        text = self.options.get("mirror")
        try:
            return store_path.parse(text, _storage(self.options.get("mirrorStorage", ""))) if text else None
        except ValueError as error:
            raise errors.Stop(errors.BAD_OPTION, f"mirror: {error}") from None

    def _required(self, name: str) -> str:
        value = self.options.get(name)
        if not value:
            raise errors.Stop(errors.BAD_OPTION, f"{name} is required")
        return value


class IcebergSink(DeltaSink):
    """The sink for Iceberg tables, with the further option ``catalog`` (JSON)."""

    table_format = "iceberg"


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes one stream into one table. Spark pickles it for the tasks, so it holds only names."""

    def __init__(
        self,
        *,
        table_format: str,
        table: Place,
        checkpoint_path: Path,
        catalog: Catalog | None = None,
        on_expired: str,
        evolves: bool = False,
        selects: bool = False,
        traces: str = "",
        mirror: StorePath | None = None,
        contract: str = "",
    ) -> None:
        self._table_format = table_format
        self._catalog = catalog
        self._table = table
        self._checkpoint = checkpoint_path
        self._on_expired = on_expired
        self._evolves = evolves
        self._selects = selects
        self._traces = traces
        self._mirror = mirror
        self._contract = contract

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        batch = (context.getLocalProperty(BATCH_PROPERTY) if context else None) or NO_BATCH
        written = task_writer.write(
            iterator,
            tables.of(self._table_format, self._catalog),
            self._table,
            int(batch),
            evolves=self._evolves,
            is_traced=bool(self._traces),
        )
        worker_memory.settle()
        return written

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        written = [message for message in messages if isinstance(message, Written)]
        end, before = spark_checkpoint.end_of(self._checkpoint, batchId), None
        if batchId > 0 and spark_checkpoint.has(self._checkpoint, batchId - 1):
            # Spark also runs batches without new data, to advance watermarks; such a batch begins where it ends.
            before = spark_checkpoint.end_of(self._checkpoint, batchId - 1)
            end = end.since(before)
        application = spark_checkpoint.application(self._checkpoint)
        batch = BatchCommit(
            table_format=tables.of(self._table_format, self._catalog),
            application=application,
            number=batchId,
            end=end,
            before=before,
            checkpoint="" if self._mirror is None else str(self._mirror),
        )
        if batch.is_in(self._table):
            return
        if self._mirror is not None:
            # Copy before anything is committed, so that the table is never ahead of the batch planned in the copy.
            checkpoint_mirror.save(self._checkpoint, self._mirror, batchId)
        batch_commit.add_columns(
            batch.table_format, self._table, fitting.merge_fields(message.fields for message in written)
        )
        rows = [file for message in written for file in message.rows]
        dead = [file for message in written for file in message.dead]
        batch.append_dead_letters(tables.beside(self._table, tables.DEAD_LETTERS), dead)
        # The notes are named after the end of the batch as Spark logged it.
        logged = spark_checkpoint.end_of(self._checkpoint, batchId)
        known = batch_notes.read_unread(batch_notes.notes_folder(self._checkpoint, logged))
        reported = [side_tables.gap_row(record) for message in written for record in message.gap_records]
        reports = Counter(gap.topic for gap in reported)
        absent = batch_commit.missing_rows(end, [*rows, *dead], known.rolled_back, reports)
        with_topic = {topic: absent.pop(topic) for topic in known.recreated & absent.keys()}
        missing = gaps.of(
            end, on_expired=self._on_expired, missing={} if self._selects else absent, recreated=with_topic
        )
        missing += reported
        batch.append_gaps(tables.beside(self._table, tables.GAPS), missing)
        counts = batch_commit.counts_of(
            end, rows, dead, written, missing, sum(absent.values()), selects=self._selects, reports=len(reported)
        )
        counts = batch_commit.judged_by(counts, self._contract, batchId)
        with batch_trace.recording(self._traces, written, self._table.name, batchId):
            batch.append(self._table, rows, counts)
        batch_notes.note_times(self._checkpoint, batchId, logged, task_writer.seconds_of(written))
        worker_memory.settle()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing; see the module's docstring."""


class BatchWriter(DataSourceArrowWriter):
    """Writes a batch query, such as a backfill, into a table: adds missing rows with ``_batch`` -1, moves no positions.

    ``is_trial``: only test whether the rows can be written, and commit nothing.
    """

    def __init__(
        self,
        *,
        table_format: str,
        table: Place,
        catalog: Catalog | None = None,
        evolves: bool = False,
        is_trial: bool = False,
    ) -> None:
        self._table_format = table_format
        self._catalog = catalog
        self._table = table
        self._evolves = evolves
        self._is_trial = is_trial

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return task_writer.write(
            iterator, tables.of(self._table_format, self._catalog), self._table, NO_BATCH, evolves=self._evolves
        )

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._is_trial:
            return
        written = [message for message in messages if isinstance(message, Written)]
        table_format = tables.of(self._table_format, self._catalog)
        rows = [file for message in written for file in message.rows]
        dead = [file for message in written for file in message.dead]
        reported = [side_tables.gap_row(record) for message in written for record in message.gap_records]
        batch_commit.append_backfill(table_format, self._table, rows, dead)
        batch_commit.append_backfill_gaps(table_format, self._table, reported)


def format_of(table_format: str) -> str:
    """The Spark name of the sink for this table format."""
    return f"fairlead_{table_format}"
