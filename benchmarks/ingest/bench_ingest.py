"""Ingest, measured on the real service: our source and sink against Spark's own, against a small program, and alone.

Everything compared is measured in one run, in one warm session, turn by turn on the same messages of 1 KiB, and is the
median of the rounds; ratios are what counts, wall clocks move with the machine. CPU is the JVM's and its workers',
without the messaging service's. Freshness is what a user sees: from the moment a message was taken to the commit of
its row, the installed programs on both ends.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
from deltalake import DeltaTable
from tests.support.edges.edge_line import telemetry
from tests.support.processes import start, wait_until
from tests.support.topics.messaging_service import MessagingService
from tests.support.whole_line import TOPIC, WholeLine

from benchmarks.collect import Row
from benchmarks.goals import GOALS
from benchmarks.ingest.pipelines import Pipelines, Run, family

ROOM = "ingest"
ROOT = Path(__file__).resolve().parents[2]
MESSAGES = 600_000
MILLION = 1_000_000
PUBLISH_BATCH = 5_000
# The compiler of a warm JVM still works on the first passes, and its CPU would count.
WARM_ROUNDS = 2
ROUNDS = 3
FRESH_PER_SECOND = 5_000
FRESH_FROM_EDGE_PER_SECOND = 2_000
FRESH_SECONDS = 20
FRESH_TICK_SECONDS = 0.1
FRESH_GOAL_SECONDS = 2.0
# What the stream compiles and opens at its first messages is not what later ones wait for.
FRESH_WARM = 5_000
IDLE_SECONDS = 20.0
SPARK_SECONDS = 240.0


def rows() -> Iterator[Row]:
    """Every goal row of the room."""
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as name:
        folder = Path(name)
        with MessagingService(folder / "messaging") as service:
            fill(service, "default/bench", MESSAGES)
            pipelines = Pipelines(folder, service.url, "default/bench", cores=2)
            try:
                yield from _compared(pipelines)
                fill(service, "default/million", MILLION)
                million = pipelines.million("default/million")
                yield _row("in.million", million.seconds, "s for 1,000,000 rows", million.seconds <= 20)
            finally:
                pipelines.spark.stop()
            yield _cores(folder, service)
            from_messaging = _from_messaging(folder, service)
            yield _idle(folder, service)
        yield _fresh(from_messaging, _from_edge(folder / "line"))


def _compared(pipelines: Pipelines) -> Iterator[Row]:
    pipelines.land()
    passes: dict[str, Callable[[], Run]] = {
        "ours": pipelines.from_json,
        "parquet": pipelines.from_json_of_parquet,
        "memory": pipelines.from_json_of_memory,
        "spark sink": pipelines.from_json_of_parquet_to_parquet,
        "decoded": pipelines.decoded_here,
        "loop": pipelines.loop,
    }
    runs: dict[str, list[Run]] = {name: [] for name in passes}
    for _ in range(WARM_ROUNDS + ROUNDS):
        for name, run in passes.items():
            runs[name].append(run())
    settled = {name: each[WARM_ROUNDS:] for name, each in runs.items()}

    def median(name: str, part: str) -> float:
        return float(statistics.median(getattr(run, part) for run in settled[name]))

    source, parquet = median("ours", "cpu_micros"), median("parquet", "cpu_micros")
    floor = f"µs CPU/row; a Python source of ready pages in memory: {median('memory', 'cpu_micros'):.1f}"
    yield _row("in.source", source, floor, source / parquet <= 1.15, parquet)
    sink, theirs = median("parquet", "batch_rate"), median("spark sink", "batch_rate")
    yield _row("in.sink", sink, "rows/s", sink / theirs >= 0.9, theirs)
    by_json, here, small = (median(name, "rate") for name in ("ours", "decoded", "loop"))
    unit = f"rows/s by from_json; {here:,.0f} decoded in the source, ratio {here / small:.2f}"
    yield _row("in.pipeline", by_json, unit, by_json / small >= 0.6 and here / small >= 0.8, small)


def _cores(folder: Path, service: MessagingService) -> Row:
    """The default pipeline on two cores and on one, messaging on the same: Spark's ``local[1]`` alone bounds one thread
    of many, and the workers and the service would fill the other core."""
    cores = sorted(os.sched_getaffinity(0))
    rates = {}
    for number in (1, 2):
        with _on(set(cores[:number]), service.pid):
            rates[number] = _alone(folder / f"cores-{number}", service.url, number)
    return _row("in.cores", rates[2], "rows/s, two cores; baseline one", rates[2] / rates[1] >= 1.5, rates[1])


def _alone(folder: Path, url: str, cores: int) -> float:
    folder.mkdir()
    command = [sys.executable, "-m", "benchmarks.ingest.pipelines", "--cores", str(cores), "--url", url]
    ended = subprocess.run(
        [*command, "--topic", "default/bench", "--folder", str(folder)],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=SPARK_SECONDS,
    )  # fmt: skip
    return float(json.loads(ended.stdout.splitlines()[-1]))


@contextlib.contextmanager
def _on(cores: set[int], pid: int) -> Iterator[None]:
    """The process ``pid``, all below it, and what this thread starts, on these cores alone for a while."""
    before = os.sched_getaffinity(0)
    try:
        _pin(pid, cores)
        os.sched_setaffinity(0, cores)
        yield
    finally:
        os.sched_setaffinity(0, before)
        _pin(pid, before)


def _pin(pid: int, cores: set[int]) -> None:
    for each in family(pid):
        for thread in Path(f"/proc/{each}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), cores)


def _fresh(from_messaging: pl.Series, from_edge: pl.Series) -> Row:
    half, p95 = (float(from_messaging.quantile(share) or 0) for share in (0.5, 0.95))
    edge_half, edge_p95 = (float(from_edge.quantile(share) or 0) for share in (0.5, 0.95))
    unit = (
        f"s p95 at {FRESH_PER_SECOND:,}/s from messaging, half {half:.2f} s;"
        f" p95 {edge_p95:.2f} s, half {edge_half:.2f} s from the edge at {FRESH_FROM_EDGE_PER_SECOND:,}/s"
    )
    return _row("in.fresh", p95, unit, max(p95, edge_p95) <= FRESH_GOAL_SECONDS)


def _from_messaging(folder: Path, service: MessagingService) -> pl.Series:
    """Ages of rows, from publish at messaging to the commit of the row, the program with a one-second trigger."""
    topic = "default/fresh"
    service.create(topic)
    with _ingesting(folder, "fresh", service.url, topic) as table:
        _publish_steadily(lambda first, count: service.publish(topic, _messages(first, count)), FRESH_PER_SECOND, table)
    return _ages(table, "_published_at")


def _from_edge(folder: Path) -> pl.Series:
    """Ages of rows, from the edge's acceptance to the commit of the row: edge, hub, messaging, ingest, real ones."""
    with WholeLine(folder) as line, _ingesting(folder, "rows-of-edge", line.messaging.url, TOPIC) as table:
        pad = random.Random(0).randbytes(420).hex()

        def publish(first: int, count: int) -> None:
            line.edge.publish([telemetry(1, {"count": first + each, "pad": pad}) for each in range(count)])

        _publish_steadily(publish, FRESH_FROM_EDGE_PER_SECOND, table)
    return _ages(table, "enqueued_at")


@contextlib.contextmanager
def _ingesting(folder: Path, name: str, url: str, topic: str) -> Iterator[Path]:
    """The program at work on ``topic``; its table."""
    running = start("ingest", _program(folder, name, url, topic), folder / f"{name}.log")
    try:
        yield folder / name / "rows"
        running.require_alive()
        running.stop()
    finally:
        running.kill()


def _publish_steadily(publish: Callable[[int, int], None], per_second: int, table: Path) -> None:
    """``FRESH_WARM`` messages at once, and when their rows are there so many a second; until all rows are."""
    publish(0, FRESH_WARM)
    wait_until("the stream is warm", lambda: _count(table) >= FRESH_WARM, seconds=SPARK_SECONDS)
    published, began = FRESH_WARM, time.monotonic()
    per_tick = int(per_second * FRESH_TICK_SECONDS)
    for tick in range(int(FRESH_SECONDS / FRESH_TICK_SECONDS)):
        publish(published, per_tick)
        published += per_tick
        time.sleep(max(0.0, began + (tick + 1) * FRESH_TICK_SECONDS - time.monotonic()))
    wait_until("all rows are there", lambda: _count(table) >= published, seconds=SPARK_SECONDS)


def _ages(table: Path, since: str) -> pl.Series:
    """Seconds from column ``since`` to the commit that made the row visible, without the warming ones."""
    commits = {
        entry["fairlead"]["batch"]: entry["timestamp"]
        for entry in DeltaTable(str(table)).history()
        if "batch" in entry.get("fairlead", {})
    }
    seen = pl.scan_delta(str(table)).select(since, "_id", "_batch").sort("_id").slice(FRESH_WARM).collect()
    return (seen["_batch"].replace_strict(commits) - seen[since].dt.epoch("ms")) / 1000


def _idle(folder: Path, service: MessagingService) -> Row:
    """Requests that an idle program sends, counted by a relay in between."""
    topic = "default/idle"
    service.create(topic)
    service.publish(topic, _messages(0, 10))
    with _CountingRelay(service.port) as relay:
        command = _program(folder, "idle", f"http://127.0.0.1:{relay.port}", topic)
        running = start("ingest", command, folder / "idle.log")
        try:
            table = folder / "idle" / "rows"
            wait_until("the stream is idle", lambda: _count(table) >= 10, seconds=SPARK_SECONDS, describe=running.tail)
            before, began = relay.requests, time.monotonic()
            time.sleep(IDLE_SECONDS)
            rate = (relay.requests - before) / (time.monotonic() - began)
            running.stop()
        finally:
            running.kill()
    return _row("in.idle", rate, "requests/s", rate <= 1.05)


def _program(folder: Path, name: str, url: str, topic: str) -> list[str]:
    (folder / name).mkdir()
    config = folder / f"{name}.toml"
    config.write_text(
        f'messaging_url = "{url}"\nsecurity = "insecure"\ntopics = ["{topic}"]\ntrigger = 1\n'
        f'table = "{folder}/{name}/rows"\ncheckpoint = "{folder}/{name}/checkpoint"\n'
    )
    return [sys.executable, "-m", "fairlead_cli.main", "ingest", "run", "--config", str(config)]


def _count(table: Path) -> int:
    if not (table / "_delta_log").is_dir():
        return 0
    return int(pl.scan_delta(str(table)).select(pl.len()).collect().item())


def fill(service: MessagingService, topic: str, count: int) -> None:
    """A topic with so many messages."""
    service.create(topic)
    for first in range(0, count, PUBLISH_BATCH):
        service.publish(topic, _messages(first, min(PUBLISH_BATCH, count - first)))


def _messages(first: int, count: int) -> list[bytes]:
    """Upstream messages of about 1 KiB; the text is random, so that compression has something to do."""
    choice = random.Random(first)
    now = datetime.datetime.now(datetime.UTC).isoformat().replace("+00:00", "Z")
    return [
        (
            f'{{"id":"m{number}","node":"edge-{number % 50}","epoch":4503599627370497,"stream":"iothub",'
            f'"sequence":{number},"source":"/messages/modules/meter/outputs/values","priority":{number % 2},'
            f'"enqueued_at":"{now}","properties":{{"unit":"C"}},'
            '"systemProperties":{"contentType":"application/json","contentEncoding":"utf-8"},'
            f'"body":{{"temperature":{choice.random() * 40:.3f},"humidity":{choice.random():.4f},'
            f'"device":"d-{number % 500}","state":"ok","count":{number},"tags":["a","b","c"],'
            f'"pad":"{choice.randbytes(300).hex()}"}}}}'
        ).encode()
        for number in range(first, first + count)
    ]


class _CountingRelay:
    """Passes connections on to a port of this machine and counts the requests in them."""

    def __init__(self, port: int) -> None:
        self.requests = 0
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])

    def __enter__(self) -> _CountingRelay:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return  # closed: the measurement is over
            server = socket.create_connection(("127.0.0.1", self._target))
            threading.Thread(target=self._pass, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, False), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, is_request: bool) -> None:
        try:
            while data := source.recv(65536):
                if is_request:
                    self.requests += data.count(b" HTTP/1.1\r\n")
                target.sendall(data)
        except OSError:
            pass  # either end went away; the other one ends below
        for each in (source, target):
            each.close()


def _row(name: str, value: float, unit: str, met: bool, baseline: float | None = None) -> Row:
    ratio = None if baseline is None else value / baseline
    return Row(name=name, value=value, unit=unit, goal=GOALS[ROOM][name], met=met, baseline=baseline, ratio=ratio)
