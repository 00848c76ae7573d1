"""Rows out of the files of the rows table, some columns at a time, so many rows at a time.

A file knows neither the partition it lies in nor columns that the table got later: both are added here, in the types
of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from fairlead_ingest import errors
from fairlead_ingest.io.table import object_store
from fairlead_ingest.latest.row_changes import RowFile
from fairlead_ingest.table.store_path import Place

BATCH_ROWS: Final = 32_768
KEPT_BYTES: Final = 64 * 1024 * 1024
"""Of a store's files read once and needed again in the same fold."""


class Gone(Exception):
    """A file that the version needs is no longer there: a vacuum was faster than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Rows of one file, from the row of this number on."""

    file: int
    first: int
    rows: pa.Table


class RowFiles:
    """Files of one version of ``table`` with the columns ``schema``."""

    def __init__(self, table: Place, files: Sequence[RowFile], schema: pa.Schema) -> None:
        self._table = table
        self._files = files
        self._schema = schema
        self._kept: dict[int, pa.Buffer] = {}
        self._kept_bytes = 0

    def __len__(self) -> int:
        return len(self._files)

    def portions(self, file: int, columns: Sequence[str]) -> Iterator[Portion]:
        """Of the file of this number. Raises ``Gone``, ``Stop``, ``Wait``."""
        wanted = [self._schema.field(name) for name in columns]
        partition = dict(self._files[file].partition)
        with self._open(file) as opened:
            held = [each.name for each in wanted if each.name in opened.schema_arrow.names]
            first = 0
            for batch in opened.iter_batches(batch_size=BATCH_ROWS, columns=held):
                # A file without any of the columns still says how many rows it has.
                rows = _fitted(pa.Table.from_batches([batch]), batch.num_rows, wanted, partition)
                yield Portion(file=file, first=first, rows=rows)
                first += batch.num_rows

    def _open(self, file: int) -> pq.ParquetFile:
        path = self._files[file].path
        if isinstance(self._table, Path):
            try:
                return pq.ParquetFile(self._table / path)
            except FileNotFoundError:
                raise Gone(path) from None
        content = self._kept.get(file)
        if content is None:
            try:
                content = pa.py_buffer(object_store.read(self._table / path))
            except errors.Stop as error:
                if error.code == errors.TABLE_UNFIT:
                    raise Gone(path) from None
                raise
            if self._kept_bytes + content.size <= KEPT_BYTES:
                self._kept[file] = content
                self._kept_bytes += content.size
        return pq.ParquetFile(pa.BufferReader(content))


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
