"""Ingest at scale, by the installed programs: how much memory many rows take, what many topics and a backlog cost.

    python -m benchmarks.ingest.scale rows --count 20000000         one topic, far more than memory; rows/s by tenth
    python -m benchmarks.ingest.scale topics --topics 300           the same messages in 300 topics, and in one
    python -m benchmarks.ingest.scale backfill --count 10000000     how fresh one topic stays while another catches up

Memory is what the processes of the job hold (proportional set size): Java of the driver and its executors in one, and
Python's drivers and workers. Messages are of about 400 bytes.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import multiprocessing
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

import polars as pl
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from tests.support.processes import Running, start
from tests.support.topics.messaging_service import MessagingService

from benchmarks.ingest import process_memory
from benchmarks.ingest.process_memory import ProcessMemory
from fairlead_ingest.source import batch_size
from fairlead_messaging.client.io.sync_client import Client

PUBLISH_BATCH = 5_000
SECONDS_MAX = 3600.0
LIVE_PER_SECOND = 1_000
LIVE_TICK_SECONDS = 0.1
TENTHS = 10
BATCHES = 20


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, default in (("rows", 20_000_000), ("backfill", 10_000_000), ("topics", 1_000_000)):
        command = commands.add_parser(name)
        command.add_argument("--count", type=int, default=default, help="messages")
        if name == "backfill":
            command.add_argument("--batch-rows", type=int, default=batch_size.BATCH_ROWS, help="of the job's limits")
            command.add_argument(
                "--batch-seconds",
                type=float,
                nargs="+",
                default=[0.0, batch_size.BATCH_SECONDS],
                help="of them, in turns",
            )
            command.add_argument("--live", type=int, default=LIVE_PER_SECOND, help="live messages a second")
            command.add_argument("--trigger", type=float, default=1, help="of the job")
            command.add_argument("--only", choices=["together", "apart"], help="one pipeline, or a pipeline each")
        if name == "topics":
            command.add_argument("--topics", type=int, default=300)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fairlead-scale-") as name:
        folder = Path(name)
        with MessagingService(folder / "messaging") as service:
            if asked.command == "rows":
                rows(folder, service, asked.count)
            elif asked.command == "topics":
                topics(folder, service, asked.count, asked.topics)
            else:
                backfill(folder, service, asked)


def rows(folder: Path, service: MessagingService, count: int) -> None:
    """All of it is published while the job reads: what it holds must not grow with what it has read."""
    names = ["default/rows"]
    service.create(names[0])
    publisher = _publishing(service.url, names, count)
    with _ingesting(folder, "rows", service.url, names, trigger=1) as (running, tables, memory):
        began = _wait_first(tables[0], running)
        seen = _until(tables[0], count, running, began)
    publisher.join()
    total = seen[-1][0]
    steps = [_at(seen, count * (tenth + 1) / TENTHS) for tenth in range(TENTHS)]
    # A tenth that came with the one before it has no rate of its own.
    pairs = [(earlier, later) for earlier, later in zip([0.0, *steps], steps, strict=False) if later > earlier]
    rates = [count / TENTHS / (later - earlier) for earlier, later in pairs]
    print(f"rows: {count:,} in {total:.1f} s, {count / total:,.0f} rows/s (published meanwhile, on the same cores)")
    print("rows/s by tenth: " + " ".join(f"{rate:,.0f}" for rate in rates))
    print(memory.text())
    found = pl.scan_delta(str(tables[0])).select(pl.len(), pl.col("_id").n_unique().alias("distinct")).collect()
    print(f"in the table: {found['len'][0]:,}, distinct {found['distinct'][0]:,}")


def topics(folder: Path, service: MessagingService, count: int, number: int) -> None:
    """The same messages in one topic and in many, each read to its end by a job of its own."""
    one, many = ["default/one"], [f"default/topic-{each:04}" for each in range(number)]
    for names in (one, many):
        for name in names:
            service.create(name)
        _publishing(service.url, names, count).join()
    for label, names in (("1 topic", one), (f"{number} topics", many)):
        with _ingesting(
            folder,
            label.replace(" ", "-"),
            service.url,
            names,
            trigger=0,
            limits_text=f"limits.batch_rows = {count // BATCHES}\n",
        ) as (running, tables, memory):
            began = _wait_first(tables[0], running)
            seen = _until(tables[0], count, running, began)
        files = len(DeltaTable(str(tables[0])).file_uris())
        commits = DeltaTable(str(tables[0])).version()
        rate = (count - seen[0][1]) / seen[-1][0] if seen[-1][0] else 0.0
        print(
            f"{label}: {count:,} rows; {rate:,.0f} rows/s after the first batch, {seen[-1][0]:.1f} s;"
            f" {files:,} files in {commits} commits"
        )
        print(memory.text())


def backfill(folder: Path, service: MessagingService, asked: argparse.Namespace) -> None:
    """A backlog in one topic, a steady stream in another: in one pipeline together, and in two pipelines of one job."""
    backlog, count = "default/backlog", asked.count
    service.create(backlog)
    _publishing(service.url, [backlog], count).join()
    shapes = [is_together for is_together, name in ((True, "together"), (False, "apart")) if asked.only in (None, name)]
    for number, (is_together, seconds) in enumerate(
        (each, seconds) for each in shapes for seconds in asked.batch_seconds
    ):
        live = f"default/live-{number}"
        service.create(live)
        limits_text = f"limits.batch_rows = {asked.batch_rows}\nlimits.batch_seconds = {seconds}\n"
        with _ingesting(
            folder,
            f"live-{number}",
            service.url,
            [backlog, live],
            trigger=asked.trigger,
            together=is_together,
            limits_text=limits_text,
        ) as (running, tables, memory):
            began = _wait_first(tables[0], running)
            first = _count(tables[0])
            stop = threading.Event()
            published: list[int] = []
            publisher = threading.Thread(target=_steadily, args=(service.url, live, asked.live, stop, published))
            publisher.start()
            try:
                seen = _until(tables[0], count, running, began)
            finally:
                stop.set()
                publisher.join()
            behind = seen[-1][0]
            # The last ones count, too: those that waited longest may be among them.
            _poll(lambda: _count_of(tables[-1], live) >= published[0], running)  # noqa: B023 - called at once
            ages = _ages(tables[-1], live)
        label = "one pipeline" if is_together else "a pipeline each"
        half, most = (float(ages.quantile(share) or 0.0) for share in (0.5, 0.95))
        print(
            f"{label}, batch_seconds {seconds:g}: backlog of {count:,} in"
            f" {behind:.1f} s, {(count - first) / behind:,.0f} rows/s after the first batch; meanwhile {ages.len():,}"
            f" live messages at {asked.live:,}/s: half {half:.2f} s, p95 {most:.2f} s,"
            f" most {float(ages.max() or 0.0):.2f} s",  # type: ignore[arg-type]
            flush=True,
        )
        print(memory.text(), flush=True)


# ---- the job and its memory ------------------------------------------------------------------------


@contextlib.contextmanager
def _ingesting(
    folder: Path,
    name: str,
    url: str,
    names: Sequence[str],
    *,
    trigger: float,
    together: bool = True,
    limits_text: str = "",
) -> Iterator[tuple[Running, list[Path], ProcessMemory]]:
    (folder / name).mkdir()
    config, tables = folder / f"{name}.toml", [folder / name / "rows"]
    text = f'messaging_url = "{url}"\nsecurity = "insecure"\ntrigger = {trigger}\n{limits_text}'
    if together:
        listed = ", ".join(f'"{each}"' for each in names)
        text += f'topics = [{listed}]\ntable = "{tables[0]}"\ncheckpoint = "{folder}/{name}/checkpoint"\n'
    else:
        tables = [folder / name / f"rows-{index}" for index in range(len(names))]
        for index, topic in enumerate(names):
            text += (
                f'[[pipelines]]\ntopics = ["{topic}"]\ntable = "{tables[index]}"\n'
                f'checkpoint = "{folder}/{name}/checkpoint-{index}"\n'
            )
    config.write_text(text)
    command = [sys.executable, "-m", "fairlead_cli.main", "ingest", "run", "--config", str(config)]
    running = start("ingest", command, folder / f"{name}.log")
    try:
        with process_memory.watching(running.pid) as memory:
            yield running, tables, memory
        running.require_alive()
        running.stop()
    finally:
        running.kill()


# ---- messages --------------------------------------------------------------------------------------


def _publishing(url: str, names: Sequence[str], count: int) -> BaseProcess:
    """A process of its own: making messages costs as much CPU as reading them."""
    process = multiprocessing.get_context("spawn").Process(target=_publish, args=(url, list(names), count))
    process.start()
    return process


def _publish(url: str, names: Sequence[str], count: int) -> None:
    client = Client(url, timeout_seconds=120.0)
    batch = max(1, min(PUBLISH_BATCH, count // len(names)))
    for first in range(0, count, batch):
        namespace, _, name = names[first // batch % len(names)].partition("/")
        client.publish(namespace, name, _messages(first, min(batch, count - first)))


def _steadily(url: str, topic: str, per_second: int, stop: threading.Event, ended: list[int]) -> None:
    client, per_tick, published, began = (
        Client(url, timeout_seconds=120.0),
        max(1, int(per_second * LIVE_TICK_SECONDS)),
        0,
        time.monotonic(),
    )
    namespace, _, name = topic.partition("/")
    while not stop.is_set():
        client.publish(namespace, name, _messages(published, per_tick))
        published += per_tick
        stop.wait(max(0.0, began + published / per_second - time.monotonic()))
    ended.append(published)


def _messages(first: int, count: int) -> list[bytes]:
    now = datetime.datetime.now(datetime.UTC).isoformat().replace("+00:00", "Z")
    return [
        (
            f'{{"id":"m{number}","node":"edge-{number % 10_000}","epoch":4503599627370497,"stream":"iothub",'
            f'"sequence":{number},"source":"/messages/modules/meter/outputs/values","priority":{number % 2},'
            f'"enqueued_at":"{now}","properties":{{"unit":"C"}},'
            '"systemProperties":{"contentType":"application/json"},'
            f'"body":{{"temperature":{number * 7 % 40_000 / 1000},"device":"d-{number % 500}","state":"ok",'
            f'"count":{number},"pad":"{number * 0x9E3779B97F4A7C15 % 2**96:024x}"}}}}'
        ).encode()
        for number in range(first, first + count)
    ]


# ---- the table -------------------------------------------------------------------------------------


def _count(table: Path) -> int:
    """From the log alone: cheap however many rows there are."""
    try:
        actions = pl.DataFrame(DeltaTable(str(table)).get_add_actions(flatten=True))
    except TableNotFoundError:
        return 0
    return int(actions["num_records"].sum()) if len(actions) else 0


def _count_of(table: Path, topic: str) -> int:
    return int(pl.scan_delta(str(table)).filter(pl.col("_topic") == topic).select(pl.len()).collect().item())


def _wait_first(table: Path, running: Running) -> float:
    return _poll(lambda: _count(table) > 0, running)


def _until(table: Path, count: int, running: Running, began: float) -> list[tuple[float, int]]:
    """(seconds since ``began``, rows) as they came, until all are there."""
    seen: list[tuple[float, int]] = []

    def all_there() -> bool:
        seen.append((time.monotonic() - began, _count(table)))
        return seen[-1][1] >= count

    _poll(all_there, running)
    return seen


def _poll(condition: Callable[[], bool], running: Running) -> float:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        running.require_alive()
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {SECONDS_MAX:.0f} s\n{running.tail()}")
        time.sleep(0.5)
    return time.monotonic()


def _at(seen: Sequence[tuple[float, int]], wanted: float) -> float:
    return next((seconds for seconds, rows in seen if rows >= wanted), seen[-1][0])


def _ages(table: Path, topic: str) -> pl.Series:
    """Seconds from publishing to the commit of the row."""
    commits = {
        entry["fairlead"]["batch"]: entry["timestamp"]
        for entry in DeltaTable(str(table)).history()
        if "batch" in entry.get("fairlead", {})
    }
    rows = pl.scan_delta(str(table)).filter(pl.col("_topic") == topic).select("_published_at", "_batch").collect()
    return (rows["_batch"].replace_strict(commits) - rows["_published_at"].dt.epoch("ms")) / 1000


if __name__ == "__main__":
    main()
