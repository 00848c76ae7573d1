"""`fairlead messaging run` as a process that can be killed and started again on the same data."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.processes import Running, free_ports, start, wait_until

from fairlead_messaging.client.io.sync_client import Client
from fairlead_wire.errors import FairleadError

START_SECONDS = 100.0
PROGRAM = "import sys; from fairlead_cli.main import main; main()"


class MessagingProgram:
    """One data directory, one port, one process at a time; it may open ``descriptors`` files and connections."""

    def __init__(self, folder: Path, *, more: str = "", descriptors: int | None = None) -> None:
        self.folder = folder
        self._descriptors = descriptors
        self.port, self.health_port = free_ports(2)
        self.url = f"http://127.0.0.1:{self.port}"
        self.config = folder / "messaging.toml"
        self.config.write_text(
            f'http_listen = "127.0.0.1:{self.port}"\nhealth_listen = "127.0.0.1:{self.health_port}"\n'
            f'data_dir = "{folder / "data"}"\nsecurity = "insecure"\n{more}\n'
        )
        self.environ: Mapping[str, str] | None = None
        """Of its process; None for this one's."""
        self._running: Running | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running is not None:
            self._running.kill()

    @property
    def running(self) -> Running:
        assert self._running is not None
        return self._running

    def start(self) -> None:
        """Returns when it answers."""
        command = [sys.executable, "-c", PROGRAM, "messaging", "run", "--config", str(self.config)]
        if self._descriptors is not None:
            command = ["sh", "-c", f'ulimit -n {self._descriptors}; exec "$@"', "sh", *command]
        self._running = start("messaging", command, self.folder / "messaging.log", environ=self.environ)
        wait_until("messaging answers", self._answers, seconds=START_SECONDS, describe=self._running.tail)

    def _answers(self) -> bool:
        self.running.require_alive()
        try:
            with Client(self.url) as client:
                client.start_transaction(0.001)
        except FairleadError as error:
            raise OSError(str(error)) from error
        return True

    def kill(self) -> None:
        """kill -9."""
        self.running.kill()

    def stop(self) -> int:
        """SIGTERM; returns the exit status."""
        return self.running.stop()
