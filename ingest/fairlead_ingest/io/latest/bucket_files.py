"""The files of a latest table: one for each bucket, written again as a whole when a key of it changes."""

from __future__ import annotations

import io
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fairlead_ingest.io.table import arrow_threads, object_store
from fairlead_ingest.io.table.files import COMPRESSION, COMPRESSION_LEVEL, sync
from fairlead_ingest.latest.definition import BUCKET
from fairlead_ingest.table.store_path import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFile:
    """One file, in the log or still to be committed."""

    path: str
    bucket: int
    size: int
    rows: int


def read(table: Place, files: Sequence[BucketFile], schema: pa.Schema) -> pa.Table:
    """All rows of these files; columns that a file lacks are null. Raises ``OSError``, ``Stop``, ``Wait``."""
    parts = [_read(table, each, schema) for each in files]
    return pa.concat_tables(parts) if parts else schema.empty_table()


def write(table: Place, bucket: int, rows: pa.Table) -> BucketFile:
    """Durable, or in the store. Raises ``OSError``, ``Stop``, ``Wait``."""
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
