"""Batches as Spark drives them, without Spark: killed with SIGKILL at each step, and continued by a new process.

python -m tests.support.kills.batch_steps URL TOPIC GENERATION SINK FOLDER FIRST EVERY  → a JSON line for each kill

Each life of the job is a separate fork (``lives``), without a JVM.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql.streaming.datasource import ReadMaxRows
from tests.support.kills import lives
from tests.support.tables.table_formats import catalog_of, format_of

from fairlead_ingest.io.sink.spark_sink import StreamWriter
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.topics import range_reader, spark_source
from fairlead_ingest.io.topics.options import SourceOptions
from fairlead_ingest.io.topics.spark_source import FairleadStreamReader
from fairlead_ingest.rows import envelope, transforms

BATCH_ROWS = 6
ROWS_SCHEMA = pa.schema(
    [
        *[field for field in envelope.PAGE_SCHEMA if field.name not in transforms.PASSENGERS],
        ("_ingested_at", envelope.TIMESTAMP),
        ("_batch", pa.int64()),
        ("_date", pa.date32()),
    ]
)
STEPS: list[tuple[Any, str]] = [
    *((os, name) for name in ("fsync", "link", "rename", "replace", "unlink")),
    *((Path, name) for name in ("write_bytes", "write_text", "mkdir", "unlink")),
    *((pq.ParquetWriter, name) for name in ("__init__", "write_table", "close")),
    *((DeltaTable, name) for name in ("create_write_transaction", "create")),
    *((SqlCatalog, name) for name in ("create_namespace", "create_table", "commit_table", "load_table")),
    # Each request to the service.
    (spark_source, "ask"),
    (range_reader, "ask"),
]


def drive(url: str, topic: str, generation: int, sink: str, folder: Path) -> None:
    """Read everything in batches, starting where the checkpoint and the table are."""
    checkpoint = folder / "checkpoint"
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True, exist_ok=True)
    if not (checkpoint / "metadata").exists():
        _whole(checkpoint / "metadata", '{"id": "q"}')
    # The topic's first generation is gone: its rest is a gap of the first batch.
    start = json.dumps({topic: {"g": generation - 1, "p": "00" * 20}})
    options = {
        "url": url, "topics": topic, "format": "envelope", "startingOffsets": start, "onRecreated": "restart",
        "checkpoint": str(checkpoint), "waitMs": "0", "splits": "2", "splitBytes": "1", "pageRows": "4",
    }  # fmt: skip
    table_format, table = format_of(sink, folder), folder / "rows"
    table_format.ensure(table, ROWS_SCHEMA)
    table_format.ensure(tables.beside(table, tables.DEAD_LETTERS), tables.DEAD_LETTERS_SCHEMA)
    table_format.ensure(tables.beside(table, tables.GAPS), tables.GAPS_SCHEMA)
    reader = FairleadStreamReader(SourceOptions.of(options))
    while True:
        planned, committed = _newest(checkpoint / "offsets"), _newest(checkpoint / "commits")
        begin = _logged(checkpoint, committed) if committed >= 0 else reader.initialOffset()
        batch = committed + 1
        if planned == committed:
            end = reader.latestOffset(begin, ReadMaxRows(BATCH_ROWS))
            if end == begin:
                return
            _whole(checkpoint / "offsets" / str(batch), f"v1\n{{}}\n{json.dumps(end)}")
        writer = StreamWriter(
            table_format=sink,
            catalog=catalog_of(sink, folder),
            table=table,
            checkpoint_path=checkpoint,
            on_expired="gap",
        )
        written = [
            writer.write(map(_with_lineage, reader.read(each)))
            for each in reader.partitions(begin, _logged(checkpoint, batch))
        ]
        writer.commit(list(written), batch)
        _whole(checkpoint / "commits" / str(batch), "v1\n{}")


def found(sink: str, folder: Path) -> dict[str, Any]:
    """What readers find: numbers of rows, payloads of dead letters, reasons of gaps, including duplicates."""
    table_format, table = format_of(sink, folder), folder / "rows"
    rows, dead, gaps = (
        tables.existing(table_format, path).to_table().to_pylist()
        for path in (table, tables.beside(table, tables.DEAD_LETTERS), tables.beside(table, tables.GAPS))
    )
    return {
        "rows": sorted(row["sequence"] for row in rows),
        "dead": sorted(row["payload"].decode() for row in dead),
        "gaps": sorted(row["reason"] for row in gaps),
    }


def _with_lineage(page: pa.RecordBatch) -> pa.RecordBatch:
    now = datetime.datetime.now(datetime.UTC)
    page = page.append_column("_ingested_at", pa.array([now] * page.num_rows, envelope.TIMESTAMP))
    return page.append_column("_date", pa.array([now.date()] * page.num_rows, pa.date32()))


def _newest(folder: Path) -> int:
    return max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=-1)


def _logged(checkpoint: Path, batch: int) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[2])
    return plain


def _whole(path: Path, text: str) -> None:
    """Write a log as Spark does: all of it or nothing."""
    draft = path.with_name(f".{path.name}.tmp")
    draft.write_text(text)
    os.rename(draft, path)


def main(url: str, topic: str, generation: int, sink: str, folder: Path, first: int, every: int) -> None:
    """Kill at step `first` and after every `every` further steps, until a life completes."""
    last = first
    while True:
        place = folder / str(last)
        place.mkdir(parents=True)
        trace = place / "trace"

        job = partial(drive, url, topic, generation, sink, place)
        ended = lives.life(partial(lives.die_at, last, STEPS, job), trace)
        is_killed = lives.was_killed(ended)
        if is_killed:
            ended = lives.life(job, trace)
        if ended == 0:
            ended = lives.life(partial(_write_found, sink, place), trace)
        answer = json.loads((place / "found.json").read_text()) if ended == 0 else {}
        print(
            json.dumps({"step": last, "killed": is_killed, "ended": ended, "trace": lives.said(trace), **answer}),
            flush=True,
        )
        if not is_killed:
            return
        last += every


def _write_found(sink: str, folder: Path) -> None:
    (folder / "found.json").write_text(json.dumps(found(sink, folder)))


if __name__ == "__main__":
    _, url, topic, generation, sink, folder, first, every = sys.argv
    main(url, topic, int(generation), sink, Path(folder), int(first), int(every))
