"""Reads the files and log entries of the rows table, and reads and writes the latest table's own files.

Rows are read in portions, with only the columns needed. A file has neither the columns of its partition nor columns the
table got later; both are added here, with the table's types. The latest table has one file for each bucket, which is
rewritten when one of its keys changes. Log entries are read one by one: each is a small file or one request.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from fairlead_ingest import errors
from fairlead_ingest.io.table import arrow_threads, object_store
from fairlead_ingest.io.table.delta.log_reader import DIGITS, LOG
from fairlead_ingest.io.table.files import COMPRESSION, COMPRESSION_LEVEL, sync
from fairlead_ingest.latest import mark
from fairlead_ingest.latest.definition import BUCKET
from fairlead_ingest.latest.mark import ChangeEntry, RowFile
from fairlead_ingest.table.store_path import Place

BATCH_ROWS: Final = 32_768
BATCH_BYTES: Final = 32 * 1024 * 1024
"""The size of a portion: this many rows, fewer if they are large."""
KEPT_BYTES: Final = 64 * 1024 * 1024
"""How much of a store's files is kept in memory, as one fold reads them twice."""


class FileGone(Exception):
    """A file that the version needs has been deleted, as by a vacuum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Consecutive rows of one file; ``first`` is the number of the first one."""

    file: int
    first: int
    rows: pa.Table


class RowFiles:
    """The files of one version of ``table``, read with the columns of ``schema``."""

    def __init__(self, table: Place, files: Sequence[RowFile], schema: pa.Schema) -> None:
        self._table = table
        self._files = files
        self._schema = schema
        self._kept: dict[int, pa.Buffer] = {}
        self._kept_bytes = 0
        self._measured: dict[int, tuple[int, int]] = {}

    @property
    def mean_bytes(self) -> int:
        """Mean uncompressed size of a row in the files read so far."""
        rows, size = (sum(each) for each in zip(*self._measured.values(), strict=True)) if self._measured else (0, 0)
        return int(size // rows) if rows else 0

    def __len__(self) -> int:
        return len(self._files)

    def portions(self, file: int, columns: Sequence[str]) -> Iterator[Portion]:
        """The rows of a file, by its number. Raises ``FileGone``, ``Stop``, ``Wait``."""
        wanted = [self._schema.field(name) for name in columns]
        partition = dict(self._files[file].partition)
        with self._open(file) as opened:
            held = [each.name for each in wanted if each.name in opened.schema_arrow.names]
            first = 0
            for batch in opened.iter_batches(batch_size=self._measure(file, opened.metadata, held), columns=held):
                # A file that has none of the columns still yields its number of rows.
                rows = _fitted(pa.Table.from_batches([batch]), batch.num_rows, wanted, partition)
                yield Portion(file=file, first=first, rows=rows)
                first += batch.num_rows

    def _measure(self, file: int, found: pq.FileMetaData, columns: Sequence[str]) -> int:
        """How many rows with these columns make a portion."""
        size = chosen = 0
        for group in map(found.row_group, range(found.num_row_groups)):
            for column in map(group.column, range(group.num_columns)):
                size += column.total_uncompressed_size
                if column.path_in_schema.partition(".")[0] in columns or column.path_in_schema in columns:
                    chosen += column.total_uncompressed_size
        self._measured[file] = found.num_rows, size
        return int(max(1, min(BATCH_ROWS, BATCH_BYTES * found.num_rows // max(1, chosen))))

    def _open(self, file: int) -> pq.ParquetFile:
        path = self._files[file].path
        if isinstance(self._table, Path):
            try:
                return pq.ParquetFile(self._table / path)
            except FileNotFoundError:
                raise FileGone(path) from None
        content = self._kept.get(file)
        if content is None:
            try:
                content = pa.py_buffer(object_store.read(self._table / path))
            except errors.Stop as error:
                if error.code == errors.TABLE_UNFIT:
                    raise FileGone(path) from None
                raise
            if self._kept_bytes + content.size <= KEPT_BYTES:
                self._kept[file] = content
                self._kept_bytes += content.size
        return pq.ParquetFile(arrow_threads.reader(content))


def _fitted(rows: pa.Table, count: int, wanted: Sequence[pa.Field], partition: dict[str, str | None]) -> pa.Table:
    columns = []
    for field in wanted:
        if field.name in partition:
            value = partition[field.name]
            columns.append(pa.repeat(pa.scalar(value, pa.string()), count).cast(field.type))
        elif field.name in rows.column_names:
            columns.append(rows[field.name].cast(field.type))
        else:
            columns.append(pa.nulls(count, field.type))
    return pa.table(columns, schema=pa.schema(wanted))


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFile:
    """One file of the latest table, committed or about to be."""

    path: str
    bucket: int
    size: int
    rows: int


def read(table: Place, files: Sequence[BucketFile], schema: pa.Schema) -> pa.Table:
    """All rows of these files; missing columns are null. Raises ``OSError``, ``Stop``, ``Wait``."""
    parts = [_read(table, each, schema) for each in files]
    return pa.concat_tables(parts) if parts else schema.empty_table()


def write(table: Place, bucket: int, rows: pa.Table) -> BucketFile:
    """Write a bucket's file, flushed to disk or uploaded to the store. Raises ``OSError``, ``Stop``, ``Wait``."""
    path = f"{BUCKET}={bucket}/part-{uuid.uuid4().hex}.zstd.parquet"
    stored = rows.drop_columns([BUCKET]) if BUCKET in rows.column_names else rows
    if isinstance(table, Path):
        (table / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(stored, table / path, compression=COMPRESSION, compression_level=COMPRESSION_LEVEL)
        size = sync(table / path)
    else:
        content = io.BytesIO()
        pq.write_table(stored, content, compression=COMPRESSION, compression_level=COMPRESSION_LEVEL)
        upload = object_store.Upload(table / path)
        upload.write(content.getvalue())
        size = upload.finish()
    return BucketFile(path=path, bucket=bucket, size=size, rows=rows.num_rows)


def _read(table: Place, file: BucketFile, schema: pa.Schema) -> pa.Table:
    where = table / file.path if isinstance(table, Path) else arrow_threads.reader(object_store.read(table / file.path))
    with pq.ParquetFile(where) as opened:
        held = [name for name in schema.names if name in opened.schema_arrow.names]
        rows = opened.read(columns=held)
    columns = [
        pa.repeat(pa.scalar(file.bucket, field.type), rows.num_rows)
        if field.name == BUCKET
        else rows[field.name].cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def entry(table: Place, version: int) -> ChangeEntry | None:
    """The log entry of ``version``, None if the log was truncated before it. Raises ``Stop``, ``Wait``."""
    content = _content(table, version)
    return None if content is None else mark.parse(content, f"{table}, version {version}")


def stamp(table: Place, version: int) -> str | None:
    """A checksum of the log entry, None if the log was truncated before it. Raises ``Stop``, ``Wait``."""
    content = _content(table, version)
    return None if content is None else mark.stamp(content)


def backwards(table: Place, version: int) -> Iterator[ChangeEntry]:
    """The log entries from ``version`` backwards, as far as the log goes. Raises ``Stop``, ``Wait``."""
    for each in range(version, -1, -1):
        found = entry(table, each)
        if found is None:
            return
        yield found


def _content(table: Place, version: int) -> bytes | None:
    name = f"{version:0{DIGITS}}.json"
    if isinstance(table, Path):
        try:
            return (table / LOG / name).read_bytes()
        except FileNotFoundError:
            return None
    try:
        return object_store.read(table / LOG / name)
    except errors.Stop as error:
        if error.code == errors.TABLE_UNFIT:
            return None
        raise
