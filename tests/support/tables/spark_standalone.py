"""A real standalone Spark cluster on loopback, from the installed pyspark: one master, workers, each a process to kill.

with Standalone(folder, workers=2) as spark:  …  spark.url  …  spark.executors()
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

import pyspark
from tests.support.processes import Running, free_ports, start, wait_until

UP_SECONDS: Final = 240.0
HOME: Final = Path(pyspark.__file__).parent
EXECUTOR: Final = "CoarseGrainedExecutorBackend"
# The first compiler alone: daemons do next to nothing, and a test waits for their start.
_SMALL: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def surroundings(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment that Spark's programs need to find each other on this machine."""
    own = {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    return {**os.environ, **own, **(environ or {})}


class Standalone:
    """`cores` and `memory` of each worker; `environ`: what the workers, and so the executors, have beside ours;
    `remembers`: whether a master that is started again knows its applications; `before`: words in front of a worker's
    command line, for example `taskset`, `unshare`."""

    def __init__(
        self,
        folder: Path,
        *,
        workers: int = 2,
        cores: int = 1,
        memory: str = "1g",
        environ: Mapping[str, str] | None = None,
        remembers: bool = True,
        before: tuple[str, ...] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        ports = free_ports(1 + workers)
        self.port = ports[0]
        self.url = f"spark://127.0.0.1:{self.port}"
        self._ports = ports[1:]
        self._cores, self._memory = cores, memory
        self._environ = dict(environ or {})
        self._remembers = remembers
        self._before = before
        self.master: Running | None = None
        self.workers: list[Running | None] = [None] * workers

    def __enter__(self) -> Self:
        self.start_master()
        for number in range(len(self.workers)):
            self.start_worker(number)
        self.ready()
        return self

    def __exit__(self, *_: object) -> None:
        for running in (*self.workers, self.master):
            if running is not None:
                running.kill()
        # Of a worker that was killed alone they may be left for a moment.
        for pid in self.executors():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def start_master(self) -> None:
        """With `remembers` it stores applications and workers, so that a new master continues with them."""
        where = f"-Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.recoveryDirectory={self.folder}/recovery"
        recovery = f"{where} {_SMALL}" if self._remembers else _SMALL
        arguments = ["--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0"]
        self.master = self._daemon("master", "master.Master", arguments, {"SPARK_MASTER_OPTS": recovery})

        def up() -> bool:
            assert self.master is not None
            self.master.require_alive()
            with socket.create_connection(("127.0.0.1", self.port), timeout=5):
                return True

        wait_until("the master listens", up, seconds=UP_SECONDS, describe=self.master.tail)

    def start_worker(
        self, number: int, *, environ: Mapping[str, str] | None = None, before: tuple[str, ...] = ()
    ) -> None:
        arguments = [
            "--host", "127.0.0.1", "--port", str(self._ports[number]), "--webui-port", "0",
            "--cores", str(self._cores), "--memory", self._memory,
            "--work-dir", str(self.folder / f"work-{number}"), self.url,
        ]  # fmt: skip
        more = {**self._environ, "SPARK_WORKER_OPTS": _SMALL, **(environ or {})}
        before = before or self._before
        self.workers[number] = self._daemon(f"worker-{number}", "worker.Worker", arguments, more, before)

    def ready(self) -> None:
        """Whether the master knows every living worker."""
        for number, worker in enumerate(self.workers):
            if worker is None:
                continue

            def known(worker: Running = worker) -> bool:
                worker.require_alive()
                return "Successfully registered with master" in worker.log.read_text(errors="replace")

            wait_until(f"worker {number} is known", known, seconds=UP_SECONDS, describe=worker.tail)

    def kill_master(self) -> None:
        """Kill it with -9."""
        assert self.master is not None
        self.master.kill()
        self.master = None

    def kill_worker(self, number: int) -> None:
        """Kill only the worker with -9: its executors notice that and exit."""
        worker = self.workers[number]
        assert worker is not None
        os.kill(worker.pid, signal.SIGKILL)
        worker.process.wait()
        self.workers[number] = None

    def executors(self) -> dict[int, int]:
        """Process id of each executor, with the number of its worker."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue  # it ended while we looked
            if not any(word.endswith(EXECUTOR) for word in words):
                continue
            for number, port in enumerate(self._ports):
                if f"spark://Worker@127.0.0.1:{port}" in words:
                    found[int(entry.name)] = number
        return found

    # --- inside

    def _daemon(
        self,
        name: str,
        program: str,
        arguments: list[str],
        environ: Mapping[str, str],
        before: tuple[str, ...] = (),
    ) -> Running:
        command = [*before, str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{program}", *arguments]
        log = self.folder / f"{name}.log"
        log.unlink(missing_ok=True)
        return start(name, command, log, environ=surroundings({"SPARK_DAEMON_MEMORY": "256m", **environ}))
