"""Where a row's microseconds go on the line into tables: each pass adds one layer to the one before.

    python -m benchmarks.ingest.layers     one table on standard output, as Markdown

    ready pages ▶ nothing        Spark's way to read from a Python source
    + fetch ▶ nothing            our source asks messaging for payloads
    + decode ▶ nothing           and takes the envelope apart
    + columns of lineage ▶ nothing
    ▶ Delta                      the product's default

The last pass is ``in.pipeline``'s "decoded in the source".  CPU is the operating system's accounting: the JVM's own,
and that of its Python workers.  Differences of two passes are small beside the passes, so each is the median of some.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.json as pj
from pyspark.sql import DataFrame
from tests.support.topics.messaging_service import MessagingService

from benchmarks.ingest.bench_ingest import MESSAGES, WARM_ROUNDS, fill
from benchmarks.ingest.pipelines import Files, MemorySource, Pipelines, cpu_seconds, own_cpu_seconds
from fairlead_ingest.io.topics.options import SourceOptions
from fairlead_ingest.io.topics.range_reader import fetch
from fairlead_ingest.rows import transforms
from fairlead_ingest.source.offset_ranges import OffsetRange
from fairlead_messaging.client.io.sync_client import BulkClient

ROUNDS = 3
TOPIC = "default/bench"


class Pass(msgspec.Struct, frozen=True, kw_only=True):
    """Microseconds of CPU for one row."""

    jvm: float
    workers: float


class Layers(Pipelines):
    """Each method is one pass over all messages, into nothing but for the last."""

    def ready_pages(self) -> Pass:
        self.spark.dataSource.register(MemorySource)
        options = {"path": str(self.folder / "pages.arrow"), "cores": "2"}
        return self._into_nothing(self.spark.readStream.format(MemorySource.name()).options(**options).load())

    def fetched(self) -> Pass:
        return self._into_nothing(self._topic("raw"))

    def decoded(self) -> Pass:
        return self._into_nothing(self._topic("envelope"))

    def with_lineage(self) -> Pass:
        return self._into_nothing(transforms.lineage(self._topic("envelope")))

    def into_delta(self) -> Pass:
        return self._split(self.decoded_here)

    def _into_nothing(self, rows: DataFrame) -> Pass:
        name = self._fresh()
        return self._split(lambda: self._run(name, rows.writeStream.format("noop")))

    def _split(self, play: Callable[[], object]) -> Pass:
        gateway = self.spark.sparkContext._gateway
        assert gateway is not None
        pid = gateway.proc.pid
        own, whole = own_cpu_seconds(pid), cpu_seconds(pid)
        play()
        own, whole = own_cpu_seconds(pid) - own, cpu_seconds(pid) - whole
        return Pass(jvm=own / MESSAGES * 1e6, workers=(whole - own) / MESSAGES * 1e6)


PASSES: dict[str, Callable[[Layers], Pass]] = {
    "Spark reads ready Arrow pages from Python": Layers.ready_pages,
    "Fairlead's source fetches pages from messaging": Layers.fetched,
    "Fairlead's source decodes the envelope": Layers.decoded,
    "two columns of lineage": Layers.with_lineage,
    "Fairlead's sink writes Parquet and commits to Delta": Layers.into_delta,
}


def plain_loop(url: str, folder: Path) -> dict[str, float]:
    """The same work without Spark, in one thread: microseconds of CPU of each part."""
    spent = dict.fromkeys(("fetches pages", "parses with pyarrow", "writes Parquet"), 0.0)
    options = SourceOptions.of({"url": url, "topics": TOPIC, "format": "raw", "splits": "1"})
    count = 0
    with BulkClient(url) as client, Files(folder / "loop.parquet") as files:
        plan = client.plan(TOPIC, after="")
        wanted = OffsetRange(topic=TOPIC, generation=plan.generation, after="", upto=plan.upto or "", rows=0)
        began = time.process_time()
        for page in fetch(client, wanted, options):
            fetched = time.process_time()
            lines = b"\n".join(page["payload"].to_pylist())
            reading = pj.ReadOptions(use_threads=False, block_size=len(lines) + 1)
            rows = pj.read_json(pa.BufferReader(lines), read_options=reading)
            parsed = time.process_time()
            files.add(rows)
            written = time.process_time()
            for part, seconds in zip(spent, (fetched - began, parsed - fetched, written - parsed), strict=True):
                spent[part] += seconds
            began, count = written, count + rows.num_rows
    return {part: seconds / count * 1e6 for part, seconds in spent.items()}


def table(passes: dict[str, Pass], loop: dict[str, float]) -> list[str]:
    """Each layer's own share, as Markdown; the sums stand below."""
    lines = ["| layer | JVM, µs | Python workers, µs | CPU for one row, µs |", "| --- | ---: | ---: | ---: |"]
    before = Pass(jvm=0.0, workers=0.0)
    for name, each in passes.items():
        jvm, workers = each.jvm - before.jvm, each.workers - before.workers
        lines.append(f"| {name} | {jvm:.1f} | {workers:.1f} | {jvm + workers:.1f} |")
        before = each
    lines.append(f"| all | {before.jvm:.1f} | {before.workers:.1f} | {before.jvm + before.workers:.1f} |")
    lines += [f"| a plain loop without Spark {name} | – | {value:.1f} | {value:.1f} |" for name, value in loop.items()]
    total = sum(loop.values())
    return [*lines, f"| all of the plain loop | – | {total:.1f} | {total:.1f} |"]


def measure(folder: Path) -> list[str]:
    """The table; about four minutes on a machine that does nothing else."""
    with MessagingService(folder / "messaging") as service:
        fill(service, TOPIC, MESSAGES)
        layers = Layers(folder, service.url, TOPIC, cores=2)
        try:
            layers.land()
            runs: dict[str, list[Pass]] = {name: [] for name in PASSES}
            loops = []
            for number in range(WARM_ROUNDS + ROUNDS):
                print(f"layers: round {number + 1} of {WARM_ROUNDS + ROUNDS} …", flush=True)
                for name, play in PASSES.items():
                    runs[name].append(play(layers))
                loops.append(plain_loop(service.url, folder))
        finally:
            layers.spark.stop()
    passes = {name: _median(each[WARM_ROUNDS:]) for name, each in runs.items()}
    settled = loops[WARM_ROUNDS:]
    return table(passes, {part: statistics.median(loop[part] for loop in settled) for part in settled[0]})


def _median(passes: list[Pass]) -> Pass:
    return Pass(
        jvm=statistics.median(each.jvm for each in passes), workers=statistics.median(each.workers for each in passes)
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="fairlead-layers-") as name:
        print("\n".join(measure(Path(name))))
