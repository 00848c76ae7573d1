"""The pipelines that ingest is compared by, run one at a time in this process's Spark session.

    python -m benchmarks.ingest.pipelines --cores 1 --url … --topic … --folder …   (one rate on standard output)

A stream is started once and runs for months, so each pass is cut into batches and only what follows the first of them
counts: starting Spark's Python processes takes about a second of CPU, which no message should be charged with.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from fairlead_ingest.io.pipeline.query import table_schema
from fairlead_ingest.io.sink import spark_sink
from fairlead_ingest.io.spark import session
from fairlead_ingest.io.table import delta, tables
from fairlead_ingest.io.topics.options import SourceOptions, spark_schema
from fairlead_ingest.io.topics.range_reader import fetch
from fairlead_ingest.rows import envelope, transforms
from fairlead_ingest.source.offset_ranges import OffsetRange
from fairlead_ingest.table.store_path import Place, StorePath
from fairlead_messaging.client.io.sync_client import BulkClient

TICKS = os.sysconf("SC_CLK_TCK")
BODY = (
    "struct<temperature:double,humidity:double,device:string,state:string,count:bigint,tags:array<string>,pad:string>"
)
ENVELOPE = (
    "id string, node string, epoch bigint, stream string, sequence bigint, source string, priority int,"
    " enqueued_at timestamp, properties map<string,string>, systemProperties map<string,string>, body " + BODY
)
SETTLE_SECONDS = 600.0
BATCH_ROWS = 100_000
PAGE_ROWS = 10_000
_POLL_SECONDS = 0.02


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one pass over the topic took, after its first batch: ``rate`` over whole triggers, ``batch_rate`` in the
    batches alone, CPU of JVM and workers; ``seconds`` is the wall clock of the whole pass."""

    rate: float
    batch_rate: float
    cpu_micros: float
    seconds: float


class Pipelines:
    """One session, one topic; each method is one pass over all its messages with fresh folders."""

    def __init__(self, folder: Path, url: str, topic: str, cores: int) -> None:
        self.folder = folder
        self.topic = topic
        self.url = url
        self.spark: SparkSession = session.start(master=f"local[{cores}]", driver_memory="2g", conf={})
        self._cores = cores
        self._batch_rows: int | None = BATCH_ROWS
        self._number = 0

    def decoded_here(self) -> Run:
        """The product's default: the envelope decoded in the source, the body as text, our Delta sink."""
        return self._to_delta(transforms.lineage(self._topic("envelope")))

    def decoded_here_to_store(self, folder: StorePath) -> Run:
        """The product's default with its table, and the copy of its checkpoint, in an object store."""
        return self._to_delta(transforms.lineage(self._topic("envelope")), folder)

    def from_json(self) -> Run:
        """Payloads from our source, all columns by `from_json`, our Delta sink."""
        return self._to_delta(self._parsed(self._topic("raw")))

    def from_json_of_parquet(self) -> Run:
        """The same with the payloads read by Spark's own Parquet reader."""
        return self._to_delta(self._parsed(self._parquet()))

    def from_json_of_memory(self) -> Run:
        """The same with ready Arrow pages: what Spark's way to read from Python costs by itself."""
        self.spark.dataSource.register(MemorySource)
        options = {"path": str(self.folder / "pages.arrow"), "cores": str(self._cores)}
        return self._to_delta(self._parsed(self.spark.readStream.format(MemorySource.name()).options(**options).load()))

    def million(self, topic: str) -> Run:
        """The product's default over all of ``topic``, in batches as large as it makes them."""
        self.topic, self._batch_rows = topic, None
        return self.decoded_here()

    def from_json_of_parquet_to_parquet(self) -> Run:
        """That again, into Spark's own Parquet sink."""
        name = self._fresh()
        writer = self._parsed(self._parquet()).writeStream.format("parquet").option("path", str(name / "rows"))
        return self._run(name, writer)

    def land(self) -> None:
        """Put the topic's payloads into Parquet files, and into one file of Arrow pages, for the comparisons."""
        rows = self.spark.read.format("fairlead").options(**self._options("raw")).load()
        # As many files in a batch as the topic has tasks, and as many rows.
        each = str(BATCH_ROWS // self._cores)
        rows.write.mode("overwrite").option("maxRecordsPerFile", each).parquet(str(self.folder / "landed"))
        landed = pq.read_table(self.folder / "landed").cast(envelope.RAW_SCHEMA).combine_chunks()
        with pa.OSFile(str(self.folder / "pages.arrow"), "wb") as file, pa.ipc.new_file(file, landed.schema) as pages:
            pages.write_table(landed, max_chunksize=PAGE_ROWS)

    def loop(self) -> Run:
        """What a small program does without Spark: fetch, parse with pyarrow, write Parquet; one thread."""
        name = self._fresh()
        options = SourceOptions.of(self._options("raw"))
        began, cpu, count = time.monotonic(), time.process_time(), 0
        with BulkClient(self.url) as client, Files(name / "rows.parquet") as files:
            plan = client.plan(self.topic, after="")
            wanted = OffsetRange(topic=self.topic, generation=plan.generation, after="", upto=plan.upto or "", rows=0)
            for page in fetch(client, wanted, options):
                lines = b"\n".join(page["payload"].to_pylist())
                # One block a page: pyarrow's own threads and block borders stay out of the comparison.
                reading = pj.ReadOptions(use_threads=False, block_size=len(lines) + 1)
                parsed = pj.read_json(pa.BufferReader(lines), read_options=reading)
                files.add(parsed)
                count += parsed.num_rows
        seconds = time.monotonic() - began
        spent = time.process_time() - cpu
        rate = count / seconds
        return Run(rate=rate, batch_rate=rate, cpu_micros=spent / count * 1e6, seconds=seconds)

    # --- inside

    def _options(self, form: str) -> dict[str, str]:
        options = {"url": self.url, "topics": self.topic, "format": form, "splits": str(self._cores)}
        return options if self._batch_rows is None else {**options, "maxRowsPerBatch": str(self._batch_rows)}

    def _topic(self, form: str) -> DataFrame:
        return self.spark.readStream.format("fairlead").options(**self._options(form)).load()

    def _parquet(self) -> DataFrame:
        schema = self.spark.read.parquet(str(self.folder / "landed")).schema
        reading = self.spark.readStream.schema(schema).option("maxFilesPerTrigger", str(self._cores))
        return reading.parquet(str(self.folder / "landed"))

    def _parsed(self, rows: DataFrame) -> DataFrame:
        parsed = rows.withColumn("_row", F.from_json(F.col("payload").cast("string"), ENVELOPE))
        return transforms.lineage(parsed.select("_row.*", "_topic", "_id", "_published_at"))

    def _fresh(self) -> Path:
        self._number += 1
        path = self.folder / f"run-{self._number}"
        path.mkdir()
        return path

    def _to_delta(self, rows: DataFrame, store: StorePath | None = None) -> Run:
        name = self._fresh()
        table: Place = name / "rows" if store is None else store / name.name / "rows"
        for suffix, schema in (
            ("", table_schema(rows.schema)),
            (tables.DEAD_LETTERS, tables.DEAD_LETTERS_SCHEMA),
            (tables.GAPS, tables.GAPS_SCHEMA),
        ):
            delta.ensure(tables.beside(table, suffix), schema)
        mirror = None if store is None else store / name.name / "checkpoint"
        writer = rows.writeStream.format("fairlead_delta").options(
            **spark_sink.place_options(table), **spark_sink.mirror_options(mirror)
        )
        # A Parquet source has no positions of ours; the comparison is of reading and writing, not of accounts.
        writer = writer.option("checkpoint", str(name / "checkpoint"))
        return self._run(name, writer)

    def _run(self, name: Path, writer: DataStreamWriter) -> Run:
        began = time.monotonic()
        query = writer.option("checkpointLocation", str(name / "checkpoint")).trigger(availableNow=True).start()
        while not query.recentProgress and query.isActive:
            time.sleep(_POLL_SECONDS)
        cpu, first = self._cpu_seconds(), len(query.recentProgress)
        if not query.awaitTermination(int(SETTLE_SECONDS)):
            raise TimeoutError(f"{name}: the query did not end")
        spent, seconds = self._cpu_seconds() - cpu, time.monotonic() - began
        batches = [each for each in query.recentProgress[first:] if each["numInputRows"]]
        if not batches:
            raise ValueError(f"{name}: all was in one batch; nothing is left to measure")
        rows = sum(each["numInputRows"] for each in batches)
        whole, working = (_seconds(batches, part) for part in ("triggerExecution", "addBatch"))
        shutil.rmtree(name)
        return Run(rate=rows / whole, batch_rate=rows / working, cpu_micros=spent / rows * 1e6, seconds=seconds)

    def _cpu_seconds(self) -> float:
        """CPU used so far by the JVM and all below it, ended processes included; the messaging service is apart."""
        gateway = self.spark.sparkContext._gateway
        assert gateway is not None
        return cpu_seconds(gateway.proc.pid)


class MemorySource(DataSource):
    """Ready pages out of a mapped file, ``BATCH_ROWS`` a batch over ``cores`` tasks: nothing is asked or decoded."""

    @classmethod
    def name(cls) -> str:
        return "memory_pages"

    def schema(self) -> StructType:
        return spark_schema(envelope.RAW_SCHEMA)

    def streamReader(self, schema: StructType) -> _MemoryReader:
        return _MemoryReader(self.options["path"], int(self.options["cores"]))


class _MemoryReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, path: str, cores: int) -> None:
        self._path = path
        self._cores = cores

    def initialOffset(self) -> dict[str, int]:
        return {"page": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing is added to the file meanwhile."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        with pa.memory_map(self._path) as file:
            pages = pa.ipc.open_file(file).num_record_batches
        return {"page": min(pages, start["page"] + BATCH_ROWS // PAGE_ROWS)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        pages = range(start["page"], end["page"])
        return [InputPartition(list(pages[core :: self._cores])) for core in range(self._cores)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(self._path) as file:
            pages = pa.ipc.open_file(file)
            for page in partition.value:
                yield pages.get_batch(page)


class Files:
    """One Parquet file that grows by tables."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> Files:
        return self

    def add(self, rows: pa.Table) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, rows.schema, compression="zstd", compression_level=1)
        self._writer.write_table(rows)

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()


def _seconds(batches: Sequence[StreamingQueryProgress], part: str) -> float:
    return float(sum(each["durationMs"][part] for each in batches)) / 1000


def family(root: int) -> list[int]:
    """Process ``root`` and all below it that live now."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it ended while we looked
                parents.setdefault(int(_stat(int(entry.name))[1]), []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += parents.get(pid, [])
    return found


def cpu_seconds(root: int) -> float:
    """CPU used so far by process ``root`` and all below it, ended ones included."""
    ticks = 0
    for pid in family(root):
        with contextlib.suppress(OSError):  # it ended while we looked; its parent has its time
            ticks += sum(int(each) for each in _stat(pid)[11:15])
    return ticks / TICKS


def own_cpu_seconds(pid: int) -> float:
    """CPU used so far by the process alone."""
    return sum(int(each) for each in _stat(pid)[11:13]) / TICKS


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def main() -> None:
    """The default pipeline at a number of cores, warmed up once; its rate as JSON."""
    parser = argparse.ArgumentParser()
    for name in ("--cores", "--url", "--topic", "--folder"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    pipelines = Pipelines(Path(options.folder), options.url, options.topic, int(options.cores))
    pipelines.decoded_here()
    json.dump(pipelines.decoded_here().rate, sys.stdout)
    pipelines.spark.stop()


if __name__ == "__main__":
    main()
