"""What the fault tests of ingest share: the program under kill -9, a continuous publisher, and the count.

publisher (numbered, repeats until stored) ──► messaging ──► ingest ──► table, read as strangers read it
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import polars as pl
import pyspark
from deltalake.exceptions import TableNotFoundError
from tests.faults.collect import Count
from tests.support.processes import Running, start, wait_until
from tests.support.tables.object_store import ObjectStore
from tests.support.topics.messaging_service import MessagingService, upstream_message

from fairlead_ingest.io.table import object_store
from fairlead_ingest.table.store_path import Place

TOPIC = "default/faults"
BATCH = 20
# A start of Spark on a busy machine, and the batches after it.
PATIENCE_SECONDS = 240.0


class Publisher(threading.Thread):
    """Publishes numbered messages until told to stop; what it counts as acknowledged was answered 200."""

    def __init__(self, service: MessagingService, first: int = 0) -> None:
        super().__init__(name="publisher", daemon=True)
        self._service = service
        self._over = threading.Event()
        self.acknowledged = first
        self.error: Exception | None = None

    def run(self) -> None:
        """Batch after batch, with short pauses."""
        try:
            while not self._over.wait(0.05):
                payloads = [upstream_message(self.acknowledged + number) for number in range(BATCH)]
                self._service.publish_patiently(TOPIC, payloads, "faults", self.acknowledged)
                self.acknowledged += BATCH
        except Exception as error:  # noqa: BLE001 - told to the main thread, which fails the test
            self.error = error

    def finish(self) -> int:
        """Stop; returns how many messages were acknowledged."""
        self._over.set()
        self.join()
        if self.error is not None:
            raise self.error
        return self.acknowledged


class IngestLab:
    """One table, and as many jobs on it as a mishap needs.

    `folder` has settings and logs; `disk` what a job writes: table, checkpoint and Spark's own files.
    """

    def __init__(
        self,
        folder: Path,
        service: MessagingService,
        *,
        sink: str,
        master: str = "local[2]",
        store: ObjectStore | None = None,
    ) -> None:
        """`store`: where table and checkpoint lie then; else in folders."""
        self.folder = folder
        self.disk = folder
        self.service = service
        self.sink = sink
        self._master = master
        self.store = store
        self._jobs: list[Running] = []

    @property
    def table(self) -> Place:
        return self.disk / "rows" if self.store is None else self.store.place("rows")

    @property
    def checkpoint(self) -> Path:
        return self.disk / "checkpoint"

    def start(self, name: str = "ingest", *, environ: dict[str, str] | None = None, **changes: Any) -> Running:
        """The program, as a user starts it."""
        values: dict[str, Any] = {
            "messaging_url": self.service.url,
            "security": "insecure",
            "topics": [TOPIC],
            "trigger": 0.2,
            "table": str(self.table),
            "storage": {} if self.store is None else self.store.settings,
            "checkpoint": str(self.checkpoint if self.store is None else self.store.place("checkpoint")),
            "table_format": self.sink,
            "request_seconds": 5.0,
            # Of rows that are all different, all of them: none may lack or be there twice.
            "latest": {"key": ["sequence"], "seconds": 0.5} if self.sink == "delta" else {},
            "spark": {
                "master": self._master,
                "conf": {
                    "spark.local.dir": str(self.disk / "spark"),
                    "spark.executor.memory": "512m",
                    "spark.sql.shuffle.partitions": "2",
                },
            },
        }
        config = self.folder / f"{name}.toml"
        config.write_text("".join(f"{key} = {_toml(value)}\n" for key, value in {**values, **changes}.items()))
        command = [sys.executable, "-m", "fairlead_cli.main", "ingest", "run", "--config", str(config)]
        # Where executors are processes of their own, Spark starts them from its home.
        surroundings = {**os.environ, "SPARK_HOME": str(Path(pyspark.__file__).parent), **(environ or {})}
        running = start(name, command, self.folder / f"{name}.log", environ=surroundings)
        self._jobs.append(running)
        return running

    def close(self) -> None:
        """kill -9 of everything started."""
        for job in self._jobs:
            job.kill()

    def rows(self, suffix: str = "") -> pl.DataFrame:
        """The table as any Delta reader sees it."""
        folder = f"{self.table}{suffix}"
        if self.store is not None:
            return self._rows_in(self.store, folder)
        if not Path(folder, "_delta_log").is_dir():
            return pl.DataFrame()
        return pl.scan_delta(folder).collect()

    def _rows_in(self, store: ObjectStore, url: str) -> pl.DataFrame:
        options = object_store.storage_options(store.storage)
        try:
            return pl.scan_delta(
                url, storage_options={key: value for key, value in options.items() if key.startswith("aws_")}
            ).collect()
        except TableNotFoundError:
            return pl.DataFrame()

    def count(self) -> int:
        """The number of rows now."""
        return self.rows().height

    def grown(self, job: Running, rows: int = 1) -> None:
        """Wait until the table has grown by that much; the job must live."""
        before = self.count()

        def more() -> bool:
            job.require_alive()
            return self.count() >= before + rows

        wait_until("rows arrive", more, seconds=PATIENCE_SECONDS, every=0.2, describe=job.tail)

    def filled(self, job: Running, rows: int) -> None:
        """Wait until the table has that many rows; the job must live."""

        def all_in() -> bool:
            job.require_alive()
            return self.count() >= rows

        wait_until(f"all {rows} rows are in", all_in, seconds=PATIENCE_SECONDS, every=0.5, describe=job.tail)

    def not_in_latest(self) -> int:
        """Rows that the latest table of a job that was stopped lacks, or has too often."""
        if self.sink != "delta":
            return 0
        latest, rows = (sorted(self.rows(suffix)["_id"].to_list()) for suffix in ("_latest", ""))
        return len(latest) - len(set(latest)) + len(set(latest) ^ set(rows))

    def verdict(self, kills: int, acknowledged: int, *, untrue: int = 0) -> Count:
        """What is in the table, against what was acknowledged as 0, 1, 2, …"""
        rows = self.rows().select("sequence", "_id")
        distinct = rows["sequence"].n_unique()
        return Count(
            kills=kills,
            acknowledged=acknowledged,
            lost=acknowledged - distinct,
            duplicated=max(rows.height - distinct, rows.height - rows["_id"].n_unique()),
            untrue=untrue,
        )


def _toml(value: Any) -> str:
    """A value in TOML: like JSON, but for tables."""
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}" = {_toml(inner)}' for key, inner in value.items()) + "}"
    return json.dumps(value)


def descendants(root: int) -> dict[int, str]:
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


def kill_process(pid: int) -> None:
    """kill -9 of one process."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it ended by itself between looking and killing
