"""Ingest, measured on the real service: our source and sink against Spark's own, against a small program, and alone.

Everything compared is measured in one run, in one warm session, on the same messages of 1 KiB; ratios are what counts,
wall clocks move with the machine. Rates are rows ÷ time inside the batches; CPU is the JVM's and its workers'.
"""

from __future__ import annotations

import datetime
import json
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
from benchmarks.collect import Row
from benchmarks.goals import GOALS
from benchmarks.ingest_pipelines import Pipelines, Run
from deltalake import DeltaTable
from tests.support.messaging_service import MessagingService
from tests.support.processes import start, wait_until

ROOM = "ingest"
ROOT = Path(__file__).resolve().parents[1]
MESSAGES = 200_000
MILLION = 1_000_000
PUBLISH_BATCH = 5_000
# The compiler of a warm JVM still works on the first passes, and its CPU would count; the best of these is kept.
ROUNDS = 4
FRESH_PER_SECOND = 5_000
FRESH_SECONDS = 20
FRESH_TICK_SECONDS = 0.1
IDLE_SECONDS = 20.0
SPARK_SECONDS = 240.0


def rows() -> Iterator[Row]:
    """Every goal row of the room."""
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as name:
        folder = Path(name)
        with MessagingService(folder / "messaging") as service:
            _fill(service, "default/bench", MESSAGES)
            pipelines = Pipelines(folder, service.url, "default/bench", cores=2)
            try:
                yield from _compared(pipelines, service)
                _fill(service, "default/million", MILLION)
                pipelines.topic = "default/million"
                million = pipelines.decoded_here()
                yield _row("in.million", million.seconds, "s for 1,000,000 rows", million.seconds <= 20)
            finally:
                pipelines.spark.stop()
            yield _fresh(folder, service)
            yield _idle(folder, service)


def _compared(pipelines: Pipelines, service: MessagingService) -> Iterator[Row]:
    pipelines.land()
    for warm in (pipelines.from_json, pipelines.from_json_of_parquet, pipelines.from_json_of_parquet_to_parquet):
        warm()
    pipelines.decoded_here()
    ours = [pipelines.from_json()]
    parquet_fed = [pipelines.from_json_of_parquet()]
    spark_sink = [pipelines.from_json_of_parquet_to_parquet()]
    decoded = [pipelines.decoded_here()]
    loop = [pipelines.loop()]
    for _ in range(ROUNDS - 1):
        ours.append(pipelines.from_json())
        parquet_fed.append(pipelines.from_json_of_parquet())
        spark_sink.append(pipelines.from_json_of_parquet_to_parquet())
        decoded.append(pipelines.decoded_here())
        loop.append(pipelines.loop())
    source, parquet = _thriftiest(ours), _thriftiest(parquet_fed)
    yield _row("in.source", source, "µs CPU/row", source / parquet <= 1.15, parquet)
    sink, theirs = _fastest(parquet_fed), _fastest(spark_sink)
    yield _row("in.sink", sink, "rows/s", sink / theirs >= 0.9, theirs)
    by_json, here, small = _fastest(ours), _fastest(decoded), _fastest(loop)
    unit = f"rows/s by from_json; {here:,.0f} decoded in the source, ratio {here / small:.2f}"
    yield _row("in.pipeline", by_json, unit, by_json / small >= 0.6 and here / small >= 0.8, small)
    one = _one_core(pipelines, service)
    yield _row("in.cores", here, "rows/s, two cores; baseline one", here / one >= 1.5, one)


def _one_core(pipelines: Pipelines, service: MessagingService) -> float:
    folder = pipelines.folder / "one-core"
    folder.mkdir()
    command = [sys.executable, "-m", "benchmarks.ingest_pipelines", "--cores", "1", "--url", service.url]
    ended = subprocess.run(
        [*command, "--topic", pipelines.topic, "--folder", str(folder)],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=SPARK_SECONDS,
    )  # fmt: skip
    return float(json.loads(ended.stdout.splitlines()[-1]))


def _fresh(folder: Path, service: MessagingService) -> Row:
    """From publish at messaging to the commit of the row, the program with a one-second trigger."""
    topic = "default/fresh"
    service.create(topic)
    running = start("ingest", _program(folder, "fresh", service.url, topic), folder / "fresh.log")
    try:
        service.publish(topic, _messages(0, 100))
        table = folder / "fresh" / "rows"
        wait_until("the stream is warm", lambda: _count(table) >= 100, seconds=SPARK_SECONDS, describe=running.tail)
        published, began = 100, time.monotonic()
        per_tick = int(FRESH_PER_SECOND * FRESH_TICK_SECONDS)
        for tick in range(int(FRESH_SECONDS / FRESH_TICK_SECONDS)):
            service.publish(topic, _messages(published, per_tick))
            published += per_tick
            time.sleep(max(0.0, began + (tick + 1) * FRESH_TICK_SECONDS - time.monotonic()))
        wait_until("all is in", lambda: _count(table) >= published, seconds=SPARK_SECONDS, describe=running.tail)
        running.stop()
    finally:
        running.kill()
    commits = {
        entry["fairlead"]["batch"]: entry["timestamp"]
        for entry in DeltaTable(str(table)).history()
        if "batch" in entry.get("fairlead", {})
    }
    columns = pl.scan_delta(str(table)).select("_published_at", "_batch", "sequence")
    seen = columns.filter(pl.col("sequence") >= 100).collect()
    visible = seen["_batch"].replace_strict(commits)
    ages = (visible - seen["_published_at"].dt.epoch("ms")) / 1000
    p95, half = float(ages.quantile(0.95) or 0), float(ages.median() or 0)  # type: ignore[arg-type]
    unit = f"s p95 at {FRESH_PER_SECOND:,}/s from messaging, half {half:.2f} s; from the edge not measured"
    return _row("in.fresh", p95, unit, False)


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


def _fill(service: MessagingService, topic: str, count: int) -> None:
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
            pass  # either end went away; the other is told below
        for each in (source, target):
            each.close()


def _fastest(runs: list[Run]) -> float:
    return max(run.rate for run in runs)


def _thriftiest(runs: list[Run]) -> float:
    return min(run.cpu_micros for run in runs)


def _row(name: str, value: float, unit: str, met: bool, baseline: float | None = None) -> Row:
    ratio = None if baseline is None else value / baseline
    return Row(name=name, value=value, unit=unit, goal=GOALS[ROOM][name], met=met, baseline=baseline, ratio=ratio)

