"""The Parquet files of one task, one for each partition.

Before a task returns its files' names, the files are flushed to disk or completely uploaded. They belong to no table
until the driver commits them; vacuum deletes those of a killed task. Up to ``GROUP_BYTES`` of rows for each file are
buffered in memory.
"""

from __future__ import annotations

import datetime
import os
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fairlead_ingest.io.table import arrow_threads, object_store, store_filesystem
from fairlead_ingest.rows.envelope import MICROS_MAX, MICROS_MIN
from fairlead_ingest.table.store_path import Place, StorePath

GROUP_BYTES = 64 * 1024 * 1024
# Level 1 takes half the space of snappy, for less than a microsecond a row.
COMPRESSION = "zstd"
COMPRESSION_LEVEL = 1
FILES_AT_ONCE = 8
"""How many files are flushed concurrently, which takes little longer than flushing one."""
PARTITION_COLUMNS = ("_topic", "_date")
# Longer bounds would bloat every entry of the table's log.
BOUND_CHARS_MAX = 128
# Bounds that include every text.
LEAST, GREATEST = "", "\U0010ffff"
_MILLIS_MIN, _MILLIS_MAX = MICROS_MIN // 1000, MICROS_MAX // 1000
_STATISTICS = ("_id", "_published_at", "enqueued_at", "node")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A finished file, with what a table's log records of it; ``path`` is relative to the table."""

    path: str
    size: int
    rows: int
    topic: str
    date: str
    minimum: dict[str, str] = field(default_factory=dict)
    maximum: dict[str, str] = field(default_factory=dict)


def sync(path: Path) -> int:
    """Flush a file, or the names in a folder, to disk; return its size in bytes."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def sync_all(paths: Iterable[Path]) -> None:
    """Flush several paths concurrently: 300 files take 0.06 s, instead of 1.4 s one by one."""
    with ThreadPoolExecutor(FILES_AT_ONCE) as syncing:
        for _ in syncing.map(sync, paths):
            pass


def open_parquet(table: Place, path: str) -> pq.ParquetFile:
    """Open a finished file of ``table``, committed or not. Raises ``OSError``, ``Wait``, ``Stop``."""
    if isinstance(table, StorePath):
        return pq.ParquetFile(arrow_threads.reader(object_store.read(table / path)))
    return pq.ParquetFile(table / path)


def content(table: Place, file: WrittenFile) -> pa.Table:
    """The rows of a finished file, committed or not, with the columns of its partition.

    Raises ``OSError``, ``Wait``, ``Stop``.
    """
    rows = open_parquet(table, file.path).read()
    if "_topic" not in rows.column_names:
        day = pa.scalar(datetime.date.fromisoformat(file.date), pa.date32())
        rows = rows.append_column("_topic", pa.repeat(pa.scalar(file.topic, pa.string()), rows.num_rows))
        rows = rows.append_column("_date", pa.repeat(day, rows.num_rows))
    return rows


def identities(table: Place, files: Iterable[WrittenFile]) -> pa.Table:
    """Topic, id and date of each row in finished files. Raises ``OSError``, ``Wait``, ``Stop``."""
    empty = pa.schema([("_topic", pa.string()), ("_id", pa.string()), ("_date", pa.date32())]).empty_table()
    found = [empty]
    for file in files:
        ids = open_parquet(table, file.path).read(columns=["_id"])["_id"].cast(pa.string())
        columns = [pa.repeat(pa.scalar(file.topic, pa.string()), len(ids)), ids]
        day = pa.scalar(datetime.date.fromisoformat(file.date), pa.date32())
        found.append(pa.table([*columns, pa.repeat(day, len(ids))], schema=empty.schema))
    return pa.concat_tables(found)


def filtered(table: Place, path: str, columns: list[str], filters: list[tuple[str, str, Any]]) -> pa.Table:
    """The matching rows of a committed file. Raises ``OSError``, ``Wait``, ``Stop``."""
    if isinstance(table, StorePath):
        return store_filesystem.matching(table / path, columns, filters)
    # Do not derive partition columns from `=` in the path.
    return pq.read_table(table / path, columns=columns, filters=filters, partitioning=None)


class PartitionedFiles:
    """Writes one file for each (topic, date).

    ``is_whole``: the files contain the partition columns too, as the readers of some formats require.
    """

    def __init__(self, table: Place, *, is_whole: bool = False) -> None:
        self._table = table
        self._left_out = [] if is_whole else list(PARTITION_COLUMNS)
        self._open: dict[tuple[str, str], _File] = {}

    def add(self, rows: pa.Table) -> None:
        """Add rows with partition columns. Raises ``OSError`` for a disk, ``Wait`` or ``Stop`` for a store."""
        for key, part in _split(rows):
            part = part.drop_columns(self._left_out)
            if key not in self._open:
                self._open[key] = _File(self._table, *key)
            self._open[key].add(part)

    def close(self) -> list[WrittenFile]:
        """Finish all files. Raises ``OSError`` for a disk, ``Wait`` or ``Stop`` for a store."""
        if len(self._open) < 2:
            return [file.close() for file in self._open.values()]
        # One by one, the files of hundreds of topics would take as many flushes or round trips.
        with ThreadPoolExecutor(FILES_AT_ONCE) as finishing:
            return list(finishing.map(_File.close, self._open.values()))


class _File:
    def __init__(self, table: Place, topic: str, date: str) -> None:
        folder = f"_topic={quote(topic, safe='')}/_date={date}"
        self._path = f"{folder}/part-{uuid.uuid4().hex}.zstd.parquet"
        self._out: _Folder | _Store = (
            _Store(table / self._path) if isinstance(table, StorePath) else _Folder(table / self._path)
        )
        self._topic, self._date = topic, date
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._bytes = 0
        self._rows = 0
        self._minimum: dict[str, str] = {}
        self._maximum: dict[str, str] = {}
        self._unbounded: set[str] = set()

    def add(self, rows: pa.Table) -> None:
        self._waiting.append(rows)
        self._bytes += rows.nbytes
        if self._bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> WrittenFile:
        self._flush()
        assert self._writer is not None
        size = self._out.close(self._writer)
        return WrittenFile(
            path=self._path,
            size=size,
            rows=self._rows,
            topic=self._topic,
            date=self._date,
            minimum=self._minimum,
            maximum=self._maximum,
        )

    def _flush(self) -> None:
        if not self._waiting:
            return
        group = pa.concat_tables(self._waiting)
        if self._writer is None:
            self._writer = self._out.open(group.schema)
        self._out.write(self._writer, group)
        self._rows += group.num_rows
        for name in _STATISTICS:
            if name in group.column_names:
                self._widen(name, group[name])
        self._waiting, self._bytes = [], 0

    def _widen(self, name: str, column: pa.ChunkedArray) -> None:
        """Widen a column's bounds, or drop them if they cannot be represented."""
        bounds = _bounds(column) if name not in self._unbounded else None
        if bounds is None:
            if column.null_count < len(column):
                self._unbounded.add(name)
                self._minimum.pop(name, None)
                self._maximum.pop(name, None)
                if pa.types.is_string(column.type):
                    # If only some files lack bounds, some readers skip those files.
                    self._minimum[name], self._maximum[name] = LEAST, GREATEST
            return
        low, high = bounds
        self._minimum[name] = min(low, self._minimum.get(name, low))
        self._maximum[name] = max(high, self._maximum.get(name, high))


class _Folder:
    """A file on disk."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path

    def open(self, schema: pa.Schema) -> pq.ParquetWriter:
        return _writer(self._path, schema)

    def write(self, writer: pq.ParquetWriter, rows: pa.Table) -> None:
        writer.write_table(rows)

    def close(self, writer: pq.ParquetWriter) -> int:
        """Flush the file to disk; return its size."""
        writer.close()
        return sync(self._path)


class _Store:
    """An object, which appears in the store when it is closed."""

    def __init__(self, path: StorePath) -> None:
        self._path = path
        self._upload: object_store.Upload | None = None

    def open(self, schema: pa.Schema) -> pq.ParquetWriter:
        self._upload = object_store.Upload(self._path)
        return _writer(pa.PythonFile(self._upload, mode="w"), schema)

    def write(self, writer: pq.ParquetWriter, rows: pa.Table) -> None:
        writer.write_table(rows)

    def close(self, writer: pq.ParquetWriter) -> int:
        """Finish the upload; return the size. Raises ``Wait``, ``Stop``."""
        assert self._upload is not None
        writer.close()
        return self._upload.finish()


def _writer(where: Any, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(where, schema, compression=COMPRESSION, compression_level=COMPRESSION_LEVEL)


def _split(rows: pa.Table) -> list[tuple[tuple[str, str], pa.Table]]:
    """Split rows by partition, in order, in one pass over the rows."""
    numbered = rows.select(PARTITION_COLUMNS).append_column("row", pa.array(range(rows.num_rows), pa.int64()))
    keys = numbered.group_by(list(PARTITION_COLUMNS), use_threads=False).aggregate([("row", "list")])
    if keys.num_rows == 1:
        return [((keys["_topic"][0].as_py(), keys["_date"][0].as_py().isoformat()), rows)]
    columns = (keys["_topic"].to_pylist(), keys["_date"].to_pylist(), keys["row_list"])
    return [
        ((topic, date.isoformat()), rows.take(numbers.values)) for topic, date, numbers in zip(*columns, strict=True)
    ]


def _bounds(column: pa.ChunkedArray) -> tuple[str, str] | None:
    """The bounds as the log writes them; None if there are none, they are too long or their time is out of range.

    Times are rounded outwards to whole milliseconds.
    """
    if pa.types.is_timestamp(column.type):
        micros = pc.cast(column, pa.timestamp("us", tz="UTC"), safe=False).cast(pa.int64())
        found = pc.min_max(micros).as_py()
        if found["min"] is None:
            return None
        low, high = found["min"] // 1000, -(-found["max"] // 1000)
        return (_time(low), _time(high)) if _MILLIS_MIN <= low <= high <= _MILLIS_MAX else None
    if not pa.types.is_string(column.type):
        return None
    found = pc.min_max(column).as_py()
    if found["min"] is None or max(len(found["min"]), len(found["max"])) > BOUND_CHARS_MAX:
        return None
    return found["min"], found["max"]


def _time(milliseconds: int) -> str:
    moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(milliseconds=milliseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
