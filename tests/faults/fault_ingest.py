"""A stream into a table while driver, JVM, workers and messaging are killed: each message one row.

    publisher (numbered, repeats until stored) ──► messaging ──► ingest ──► Delta table
                                                   kill -9        kill -9 of the driver, its JVM or a worker
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import polars as pl
from tests.faults.collect import Count
from tests.support.messaging_service import MessagingService, upstream_message
from tests.support.processes import Running, start, wait_until

ROOM = "ingest"
KILLS = 20
TOPIC = "default/faults"
BATCH = 20
VICTIMS = ("driver", "jvm", "worker", "messaging")
# A start of Spark on a busy machine, and the batches after it.
PATIENCE_SECONDS = 180.0
# A kill comes at a random moment of this span after a commit was seen.
SPAN_SECONDS = 1.5


class Publisher(threading.Thread):
    """Publishes numbered messages until told to stop; what it counts as acknowledged was answered 200."""

    def __init__(self, service: MessagingService) -> None:
        super().__init__(name="publisher", daemon=True)
        self._service = service
        self._over = threading.Event()
        self.acknowledged = 0
        self.error: Exception | None = None

    def run(self) -> None:
        """Batch after batch, a little apart, so that the stream never rests and never floods."""
        try:
            while not self._over.wait(0.05):
                payloads = [upstream_message(self.acknowledged + number) for number in range(BATCH)]
                self._service.publish_patiently(TOPIC, payloads, "faults", self.acknowledged)
                self.acknowledged += BATCH
        except Exception as error:  # noqa: BLE001 - told to the main thread, which fails the test
            self.error = error

    def finish(self) -> int:
        """Stop; how many messages were acknowledged."""
        self._over.set()
        self.join()
        if self.error is not None:
            raise self.error
        return self.acknowledged


def run(kills: int, seed: int, progress: Callable[[str], None]) -> Count:
    """Kill `kills` times at moments and of victims chosen by `seed`, then count."""
    choice = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="fairlead-faults-") as name:
        folder = Path(name)
        with MessagingService(folder / "messaging") as service:
            service.create(TOPIC)
            ingest = _start(folder, service)
            publisher = Publisher(service)
            publisher.start()
            try:
                for number in range(kills):
                    _progressed(folder, ingest)
                    victim = choice.choice(VICTIMS)
                    threading.Event().wait(choice.random() * SPAN_SECONDS)
                    ingest = _kill(victim, ingest, service, folder)
                    progress(f"  kill {number + 1} of {kills}: {victim}, {_count(folder)} rows so far")
                acknowledged = publisher.finish()
                wait_until(
                    f"all {acknowledged} rows are in",
                    lambda: _count(folder) >= acknowledged,
                    seconds=PATIENCE_SECONDS,
                    every=0.5,
                    describe=ingest.tail,
                )
                ingest.stop()
                return _verdict(folder, kills, acknowledged)
            finally:
                ingest.kill()
                if publisher.is_alive():
                    publisher.finish()


def _start(folder: Path, service: MessagingService) -> Running:
    config = folder / "ingest.toml"
    config.write_text(
        f'messaging_url = "{service.url}"\nsecurity = "insecure"\ntopics = ["{TOPIC}"]\ntrigger = 0.2\n'
        f'table = "{folder}/rows"\ncheckpoint = "{folder}/checkpoint"\n'
        "request_seconds = 5.0\n"
        '[spark]\nmaster = "local[2]"\n'
    )
    command = [sys.executable, "-m", "fairlead_cli.main", "ingest", "run", "--config", str(config)]
    return start("ingest", command, folder / "ingest.log")


def _kill(victim: str, ingest: Running, service: MessagingService, folder: Path) -> Running:
    if victim == "messaging":
        service.kill()
        service.start()
        return ingest
    if victim == "driver":
        ingest.kill()
        return _start(folder, service)
    family = _descendants(ingest.pid)
    wanted = "pyspark.daemon" if victim == "worker" else "org.apache.spark.deploy.SparkSubmit"
    pids = [pid for pid, command in family.items() if wanted in command]
    if pids:
        _send_kill(pids[-1])
    if victim == "jvm":
        # The program says that Spark died and ends; its supervisor, here, starts it again.
        ingest.process.wait(PATIENCE_SECONDS)
        ingest.kill()
        return _start(folder, service)
    return ingest


def _progressed(folder: Path, ingest: Running) -> None:
    before = _count(folder)

    def grown() -> bool:
        ingest.require_alive()
        return _count(folder) > before

    wait_until("rows arrive", grown, seconds=PATIENCE_SECONDS, every=0.2, describe=ingest.tail)


def _count(folder: Path) -> int:
    if not (folder / "rows" / "_delta_log").is_dir():
        return 0
    return int(pl.scan_delta(str(folder / "rows")).select(pl.len()).collect().item())


def _verdict(folder: Path, kills: int, acknowledged: int) -> Count:
    rows = pl.scan_delta(str(folder / "rows")).select("sequence", "_id").collect()
    dead = pl.scan_delta(str(folder / "rows_dead_letters")).collect().height
    gaps = pl.scan_delta(str(folder / "rows_gaps")).collect().height
    distinct = rows["sequence"].n_unique()
    return Count(
        kills=kills,
        acknowledged=acknowledged,
        lost=acknowledged - distinct,
        duplicated=max(rows.height - distinct, rows.height - rows["_id"].n_unique()),
        untrue=dead + gaps,
    )


def _descendants(root: int) -> dict[int, str]:
    """Every process below `root` with its command line, parents before children."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue  # it ended while we looked
            parents.setdefault(parent, []).append(int(entry.name))
    found: dict[int, str] = {}
    waiting = [root]
    while waiting:
        for pid in parents.get(waiting.pop(0), []):
            try:
                found[pid] = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            waiting.append(pid)
    return found


def _send_kill(pid: int) -> None:

    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it ended by itself between looking and killing
