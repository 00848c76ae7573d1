"""The pipelines that ingest is compared by, run one at a time in this process's Spark session.

    python -m benchmarks.ingest_pipelines --cores 1 --url … --topic … --folder …   (one rate on standard output)
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from fairlead_ingest import transforms
from fairlead_ingest.io import delta, session, tables
from fairlead_ingest.io.fetching import Stretch, fetch
from fairlead_ingest.io.job import table_schema
from fairlead_ingest.io.options import Options
from fairlead_messaging.io.sync_client import BulkClient

TICKS = os.sysconf("SC_CLK_TCK")
BODY = (
    "struct<temperature:double,humidity:double,device:string,state:string,count:bigint,"
    "tags:array<string>,pad:string>"
)
ENVELOPE = (
    "id string, node string, epoch bigint, stream string, sequence bigint, source string, priority int,"
    " enqueued_at timestamp, properties map<string,string>, systemProperties map<string,string>, body " + BODY
)
SETTLE_SECONDS = 600.0


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one pass over the topic took: rate in the batches, CPU of JVM and workers, wall clock of the query."""

    rows: int
    rate: float
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
        self._number = 0

    def decoded_here(self) -> Run:
        """The product's default: the envelope decoded in the source, the body as text, our Delta sink."""
        return self._to_delta(transforms.lineage(self._topic("envelope")))

    def from_json(self) -> Run:
        """Payloads from our source, all columns by `from_json`, our Delta sink."""
        return self._to_delta(self._parsed(self._topic("raw")))

    def from_json_of_parquet(self) -> Run:
        """The same with the payloads read by Spark's own Parquet reader."""
        return self._to_delta(self._parsed(self._parquet()))

    def from_json_of_parquet_to_parquet(self) -> Run:
        """That again, into Spark's own Parquet sink."""
        name = self._fresh()
        writer = self._parsed(self._parquet()).writeStream.format("parquet").option("path", str(name / "rows"))
        return self._run(name, writer)

    def land(self) -> int:
        """Put the topic's payloads into Parquet files for the comparisons; how many there are."""
        rows = self.spark.read.format("fairlead").options(**self._options("raw")).load()
        rows.write.mode("overwrite").parquet(str(self.folder / "landed"))
        return self.spark.read.parquet(str(self.folder / "landed")).count()

    def loop(self) -> Run:
        """What a small program does without Spark: fetch, parse with pyarrow, write Parquet; one thread."""
        name = self._fresh()
        options = Options.of(self._options("raw"))
        began, cpu, count = time.monotonic(), time.process_time(), 0
        with BulkClient(self.url) as client, _Files(name / "rows.parquet") as files:
            plan = client.plan(self.topic, after="")
            stretch = Stretch(topic=self.topic, generation=plan.generation, after="", upto=plan.upto or "", rows=0)
            for page in fetch(client, stretch, options):
                lines = b"\n".join(page["payload"].to_pylist())
                # One block a page: pyarrow's own threads and block borders stay out of the comparison.
                reading = pj.ReadOptions(use_threads=False, block_size=len(lines) + 1)
                parsed = pj.read_json(pa.BufferReader(lines), read_options=reading)
                files.add(parsed)
                count += parsed.num_rows
        seconds = time.monotonic() - began
        spent = time.process_time() - cpu
        return Run(rows=count, rate=count / seconds, cpu_micros=spent / count * 1e6, seconds=seconds)

    # --- inside

    def _options(self, form: str) -> dict[str, str]:
        return {"url": self.url, "topics": self.topic, "format": form, "splits": str(self._cores)}

    def _topic(self, form: str) -> DataFrame:
        return self.spark.readStream.format("fairlead").options(**self._options(form)).load()

    def _parquet(self) -> DataFrame:
        schema = self.spark.read.parquet(str(self.folder / "landed")).schema
        return self.spark.readStream.schema(schema).parquet(str(self.folder / "landed"))

    def _parsed(self, rows: DataFrame) -> DataFrame:
        parsed = rows.withColumn("_row", F.from_json(F.col("payload").cast("string"), ENVELOPE))
        return transforms.lineage(parsed.select("_row.*", "_topic", "_id", "_published_at"))

    def _fresh(self) -> Path:
        self._number += 1
        path = self.folder / f"run-{self._number}"
        path.mkdir()
        return path

    def _to_delta(self, rows: DataFrame) -> Run:
        name = self._fresh()
        for suffix, schema in (
            ("", table_schema(rows.schema)),
            (tables.DEAD_LETTERS, tables.DEAD_LETTERS_SCHEMA),
            (tables.GAPS, tables.GAPS_SCHEMA),
        ):
            delta.ensure(name / f"rows{suffix}", schema)
        writer = rows.writeStream.format("fairlead_delta").option("table", str(name / "rows"))
        # A Parquet source has no positions of ours; the comparison is of reading and writing, not of accounts.
        writer = writer.option("checkpoint", str(name / "checkpoint"))
        return self._run(name, writer)

    def _run(self, name: Path, writer: DataStreamWriter) -> Run:
        cpu, began = _cpu_seconds(), time.monotonic()
        query = writer.option("checkpointLocation", str(name / "checkpoint")).trigger(availableNow=True).start()
        if not query.awaitTermination(int(SETTLE_SECONDS)):
            raise TimeoutError(f"{name}: the query did not end")
        seconds, spent = time.monotonic() - began, _cpu_seconds() - cpu
        batches = [each for each in query.recentProgress if each["numInputRows"]]
        rows = sum(each["numInputRows"] for each in batches)
        working = sum(each["durationMs"]["addBatch"] for each in batches) / 1000
        shutil.rmtree(name)
        return Run(rows=rows, rate=rows / working, cpu_micros=spent / rows * 1e6, seconds=seconds)


class _Files:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> _Files:
        return self

    def add(self, rows: pa.Table) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, rows.schema, compression="zstd", compression_level=1)
        self._writer.write_table(rows)

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()


def _cpu_seconds() -> float:
    """CPU used so far by everything below this process: the JVM and its workers, ended ones included."""
    parents: dict[int, list[tuple[int, float]]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it ended while we looked; its parent has its time
            spent = sum(int(ticks) for ticks in fields[11:15]) / TICKS
            parents.setdefault(int(fields[1]), []).append((int(entry.name), spent))
    total, waiting = 0.0, [os.getpid()]
    while waiting:
        for pid, spent in parents.get(waiting.pop(), []):
            total += spent
            waiting.append(pid)
    return total


def main() -> None:
    """One pipeline at a number of cores, warmed up once; its rate as JSON."""
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
