"""A real Spark Connect server on loopback, from the installed pyspark: started, killed, started again on its port.

with ConnectServer(folder) as server:  …  server.remote  …
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from tests.support.processes import Running, free_ports, start, wait_until
from tests.support.tables.spark_standalone import HOME, UP_SECONDS, surroundings

_CLASS: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer:
    """`master`: where its tasks run; `environ`: further environment variables."""

    def __init__(self, folder: Path, *, master: str = "local[2]", environ: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (self.port,) = free_ports(1)
        self.remote = f"sc://127.0.0.1:{self.port}"
        self._folder = folder
        self._master = master
        self._environ = dict(environ or {})
        self.running: Running | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it; it is ready when this returns."""
        conf = {
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.local.dir": str(self._folder / "spark"),
            "spark.executor.memory": "512m",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        command = [str(HOME / "bin" / "spark-submit"), "--master", self._master, "--class", _CLASS]
        for key, value in conf.items():
            command += ["--conf", f"{key}={value}"]
        log = self._folder / "connect.log"
        environ = surroundings(self._environ)
        running = self.running = start("connect", [*command, "spark-internal"], log, environ=environ)

        def up() -> bool:
            running.require_alive()
            with socket.create_connection(("127.0.0.1", self.port), timeout=5):
                return True

        wait_until("the Connect server listens", up, seconds=UP_SECONDS, describe=running.tail)

    def kill(self) -> None:
        """Kill it and its tasks with -9."""
        if self.running is not None:
            self.running.kill()
            self.running = None
