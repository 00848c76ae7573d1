"""Rows a second by executors of a standalone Spark cluster, and what that says of larger ones.

    python -m benchmarks.ingest.executors [--messages 150000] [--seconds 240]

Driver and messaging have the first core, executors the others. Where there are fewer cores than executors, each
executor gets a fixed part of one by a quota of the kernel (cgroup), so that four are four times one; that needs root.
Without it only as many executors are measured as there are cores for them.

One session has all executors from beginning to end, and a run puts as many to work as its batches have tasks: starting
Spark anew for each number took longer than the measurement. All runs read one topic; the first batch of each is not
counted. What is left of `--seconds` when Spark is up is shared out: a run ends with the topic, or with its share once
two batches are done.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from tests.support.processes import wait_until
from tests.support.tables.spark_standalone import Standalone, surroundings
from tests.support.topics.messaging_service import MessagingService

from benchmarks.ingest import executor_model
from benchmarks.ingest.bench_ingest import fill
from benchmarks.ingest.executor_model import Measured
from benchmarks.ingest.pipelines import cpu_seconds, family, own_cpu_seconds
from fairlead_ingest.io.pipeline.query import table_schema
from fairlead_ingest.io.spark import session
from fairlead_ingest.io.table import tables
from fairlead_ingest.rows import transforms

COUNTS: Final = (1, 2, 4)
MESSAGES: Final = 150_000
BATCHES: Final = 6
SECONDS: Final = 240.0
RUN_SECONDS_MIN: Final = 10.0
WARM_MESSAGES: Final = 40_000
TOPIC, WARM = "default/executors", "default/executors-warm"
BATCH_ROWS: Final = 500_000
# Of a core for each executor, where there are not enough.
SHARE: Final = 0.25
PERIOD_MICROS: Final = 100_000
WAIT_SECONDS: Final = 90.0
CGROUPS: Final = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))


@dataclass(frozen=True, kw_only=True)
class Run:
    """With `executors`, each of `core_share` of a core: rows a second of `batches`, and what a row and a batch took."""

    executors: int
    batches: int
    core_share: float
    rate: float
    batch_seconds: float
    batch_rows: float
    executor_micros: float
    driver_micros: float
    messaging_micros: float

    @property
    def measured(self) -> Measured:
        return Measured(
            executors=self.executors,
            core_share=self.core_share,
            batch_seconds=self.batch_seconds,
            batch_rows=self.batch_rows,
        )


def measure(messages: int = MESSAGES, seconds: float = SECONDS) -> list[Run]:
    """One run for each number of executors that this machine can give its own part of a core."""
    end = time.monotonic() + seconds
    cores = sorted(os.sched_getaffinity(0))
    enough = len(cores) > max(COUNTS)
    limited = not enough and _cgroup() is not None
    counts = [count for count in COUNTS if enough or limited or count < len(cores)]
    share = SHARE if limited else 1.0
    before = os.sched_getaffinity(0)
    os.environ.update(surroundings())
    with tempfile.TemporaryDirectory(prefix="fairlead-executors-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        stack.callback(os.sched_setaffinity, 0, before)
        os.sched_setaffinity(0, {cores[0]})
        service = stack.enter_context(MessagingService(folder / "messaging"))
        fill(service, TOPIC, messages)
        fill(service, WARM, WARM_MESSAGES)
        pinned = ("taskset", "-c", ",".join(str(each) for each in cores[1:] or cores))
        cluster = stack.enter_context(Standalone(folder / "spark", workers=max(counts), memory="1g", before=pinned))
        _say("messages are stored, starting executors")
        spark = stack.enter_context(_session(cluster, max(counts)))
        # Compiled code, and Python processes that run: what a job has that is at work for an hour.
        share_of_warm = _share(end, 2 * len(counts))
        warm = _stream(spark, folder / "warm", service.url, WARM, max(counts), WARM_MESSAGES // 4, share_of_warm)
        _say(f"{max(counts)} executors are warm after {sum(rows for rows, _ in warm):,} rows")
        stack.enter_context(_limited(cluster, share if limited else None))
        runs = []
        for done, count in enumerate(counts):
            run_seconds = _share(end, len(counts) - done)
            runs.append(_run(folder / f"with-{count}", spark, cluster, service, count, share, messages, run_seconds))
        return runs


def _share(end: float, of: int) -> float:
    """Seconds of what is left until `end`, for one of so many."""
    return max((end - time.monotonic()) / of, RUN_SECONDS_MIN)


@contextlib.contextmanager
def _session(cluster: Standalone, executors: int) -> Iterator[SparkSession]:
    conf = {"spark.cores.max": str(executors), "spark.executor.memory": "768m", "spark.executor.cores": "1"}
    spark = session.start(master=cluster.url, driver_memory="1g", conf=conf)
    try:
        wait_until("the executors are there", lambda: len(cluster.executors()) == executors, seconds=WAIT_SECONDS)
        yield spark
    finally:
        spark.stop()
        wait_until("the executors have ended", lambda: not cluster.executors(), seconds=WAIT_SECONDS)


def _run(
    folder: Path,
    spark: SparkSession,
    cluster: Standalone,
    service: MessagingService,
    count: int,
    share: float,
    messages: int,
    seconds: float,
) -> Run:
    folder.mkdir()
    pids = list(cluster.executors())
    driver = _driver_pid(spark)

    def spent() -> list[float]:
        return [sum(map(cpu_seconds, pids)), cpu_seconds(driver), own_cpu_seconds(service.pid)]

    first = spent()
    batches = _stream(spark, folder, service.url, TOPIC, count, messages // BATCHES, seconds)
    micros = [
        (after - before) / sum(rows for rows, _ in batches) * 1e6 for before, after in zip(first, spent(), strict=True)
    ]
    counted = batches[1:]
    rows, took = sum(number for number, _ in counted), sum(each for _, each in counted)
    _say(f"{count} executors: {rows / took:,.0f} rows/s in {len(counted)} batches")
    return Run(
        executors=count,
        batches=len(counted),
        core_share=share,
        rate=rows / took,
        batch_seconds=took / len(counted),
        batch_rows=rows / len(counted),
        executor_micros=micros[0],
        driver_micros=micros[1],
        messaging_micros=micros[2],
    )


def _stream(
    spark: SparkSession, folder: Path, url: str, topic: str, tasks: int, batch_rows: int, seconds: float
) -> list[tuple[int, float]]:
    """The job's own pipeline over a topic, to its end or until `seconds` are over and two batches are done; rows and
    seconds of each batch."""
    options = {
        "url": url, "topics": topic, "format": "envelope", "splits": tasks, "splitBytes": 1024 * 1024,
        "maxRowsPerBatch": batch_rows, "checkpoint": folder / "checkpoint",
    }  # fmt: skip
    rows = transforms.lineage(
        spark.readStream.format("fairlead").options(**{key: str(value) for key, value in options.items()}).load()
    )
    table, table_format = folder / "rows", tables.of("delta")
    table_format.ensure(table, table_schema(rows.schema))
    table_format.ensure(tables.beside(table, tables.DEAD_LETTERS), tables.DEAD_LETTERS_SCHEMA)
    table_format.ensure(tables.beside(table, tables.GAPS), tables.GAPS_SCHEMA)
    checkpoint = str(folder / "checkpoint")
    writer = rows.writeStream.format("fairlead_delta").options(table=str(table), checkpoint=checkpoint)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()

    def done() -> list[tuple[int, float]]:
        counted = [each for each in query.recentProgress if each.numInputRows]
        return [(each.numInputRows, each["durationMs"]["triggerExecution"] / 1000) for each in counted]

    if not query.awaitTermination(int(seconds)):
        wait_until("two batches are done", lambda: len(done()) > 1 or not query.isActive, seconds=WAIT_SECONDS)
        query.stop()
    return done()


def _driver_pid(spark: SparkSession) -> int:
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    return int(gateway.proc.pid)


# --- a part of a core


def _cgroup() -> Path | None:
    """Where a group with a quota can be made, None where it cannot."""
    for root in CGROUPS:
        group = root / f"fairlead-try-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        able = _quota_file(group) is not None
        group.rmdir()
        if able:
            return root
    return None


def _quota_file(group: Path) -> Path | None:
    return next((group / name for name in ("cpu.max", "cpu.cfs_quota_us") if (group / name).exists()), None)


@contextlib.contextmanager
def _limited(cluster: Standalone, share: float | None) -> Iterator[None]:
    """Each executor, with its Python processes, in a group of its own."""
    root = _cgroup()
    groups: list[Path] = []
    try:
        for pid in cluster.executors() if share is not None and root is not None else ():
            assert root is not None and share is not None
            group = root / f"fairlead-executor-{pid}"
            group.mkdir()
            groups.append(group)
            quota = _quota_file(group)
            assert quota is not None
            micros = int(share * PERIOD_MICROS)
            quota.write_text(f"{micros} {PERIOD_MICROS}" if quota.name == "cpu.max" else str(micros))
            for member in family(pid):
                with contextlib.suppress(ProcessLookupError):
                    (group / "cgroup.procs").write_text(str(member))
        yield
    finally:
        for group in groups:
            for each in (group / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    (group.parent / "cgroup.procs").write_text(each)
            wait_until("the group is empty", lambda group=group: _gone(group), seconds=WAIT_SECONDS)  # type: ignore[misc]


def _gone(group: Path) -> bool:
    group.rmdir()
    return True


# --- for people


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def report(runs: Sequence[Run]) -> str:
    """The runs, and what the model makes of them."""
    share = runs[0].core_share
    lines = [
        f"executors, each {share:g} of a core   rows/s   x one   batches   µs CPU a row: executors, driver, messaging"
    ]
    lines += [
        f"{run.executors:>9} {run.rate:>29,.0f} {run.rate / runs[0].rate:>7.2f} {run.batches:>9}   "
        f"{run.executor_micros:>14.1f} {run.driver_micros:>10.1f} {run.messaging_micros:>8.1f}"
        for run in runs
    ]
    if len(runs) < 2:
        return "\n".join([*lines, "too few cores for more executors, and no right to make groups with quotas (root)"])
    parts = parts_of(runs)
    lines += [
        "",
        f"model: {parts.serial_seconds * 1000:.0f} ms a batch that no executor does, {parts.executor_micros:.1f} µs a"
        f" row on executors, messaging {parts.messaging_micros:.1f} µs, so at most {parts.messaging_rate:,.0f} rows/s",
        f"with batches of {BATCH_ROWS:,} rows more than {parts.cores_useful(BATCH_ROWS):.0f} cores are no use",
        "executors of one core each, modelled: rows/s with batches of 50,000 and of 500,000",
    ]
    lines += [
        f"{cores:>9} {parts.rate(cores, 50_000):>12,.0f} {parts.rate(cores, BATCH_ROWS):>12,.0f}"
        for cores in (1, 2, 4, 8, 16)
    ]
    return "\n".join(lines)


def parts_of(runs: Sequence[Run]) -> executor_model.Parts:
    """The model's parts; what a row costs messaging is the least of the runs: its other work is not the rows'."""
    return executor_model.fitted([run.measured for run in runs], min(run.messaging_micros for run in runs))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingest.executors", description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES, help="of 1 KiB, in the topic; default 150,000")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for all of it, about; default 240")
    given = parser.parse_args()
    began = time.monotonic()
    runs = measure(given.messages, given.seconds)
    print(report(runs))
    print(f"\n{time.monotonic() - began:.0f} s; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
