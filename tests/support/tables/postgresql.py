"""A real PostgreSQL on loopback, with one database and one user: started, killed, suspended, started again.

with PostgreSQL() as database:
    table_format = tables.of("iceberg", database.catalog())

It refuses to run as root, and only the owner can read a test's folder: so programs and data are in a folder of
their own, which is removed at the end, and root starts it as another user.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Self

import psycopg
from tests.support.processes import Running, free_ports, start, wait_until
from tests.support.tools import fetched, tool

from fairlead_ingest.table.catalog import Catalog

READY_SECONDS: Final = 60.0
BUILDER: Final = Path(__file__).resolve().parents[3] / "e2e" / "postgresql" / "build.py"
USER: Final = "fairlead"
PASSWORD: Final = "not a secret: @/%"
NO_ONE: Final = 65534
"""The user who runs it where we are root."""
SETTINGS: Final = ("listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=40", "lc_messages=C")


@functools.cache
def built() -> Path:
    """The folder of its programs. Takes seconds the first time. Skips the test if they are not available."""
    tool("mvn")
    return fetched(BUILDER, "postgresql")


class PostgreSQL:
    """`settings`: further settings of the server, as NAME=VALUE."""

    def __init__(self, *settings: str) -> None:
        self._settings = (*SETTINGS, *settings)
        (self.port,) = free_ports(1)
        self.running: Running | None = None

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="fairlead-postgresql-"))
        self.folder.chmod(0o755)
        shutil.copytree(built(), self.folder / "programs", symlinks=True)
        self.password_file = self.folder / "password"
        self.password_file.write_text(PASSWORD + "\n")
        data = self.folder / "data"
        data.mkdir(mode=0o700)
        if _as_no_one():
            os.chown(data, NO_ONE, NO_ONE)
        made = subprocess.run(
            [*_as_no_one(), str(self.folder / "programs/bin/initdb"), "-D", str(data), "-U", USER, "--no-sync",
             "--auth=scram-sha-256", f"--pwfile={self.password_file}", "--encoding=UTF8", "--locale=C"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/",
        )  # fmt: skip
        assert made.returncode == 0, made.stdout
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self.folder)

    def start(self) -> None:
        """Start it; it is ready when this returns."""
        words = [word for each in (f"port={self.port}", *self._settings) for word in ("-c", each)]
        command = [*_as_no_one(), str(self.folder / "programs/bin/postgres"), "-D", str(self.folder / "data"), *words]
        running = self.running = start("postgresql", command, self.folder / "server.log", folder=Path("/"))

        def up() -> bool:
            running.require_alive()
            try:
                with self.asked() as connection:
                    return connection.execute("select 1").fetchone() == (1,)
            except psycopg.OperationalError as error:
                raise AssertionError(error) from None

        wait_until("PostgreSQL answers", up, seconds=READY_SECONDS, describe=running.tail)

    def kill(self) -> None:
        """Kill every process of it with -9: what is not written is lost."""
        if self.running is not None:
            self._signal(signal.SIGSTOP)
            self._signal(signal.SIGKILL)
            self.running.kill()
            self.running = None

    @contextlib.contextmanager
    def hung(self) -> Iterator[None]:
        """Suspend it: it accepts connections and does not respond."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        """Signal the server, so that it starts no more processes, then its processes, each in its own session."""
        assert self.running is not None
        of_server = Path(f"/proc/{self.running.pid}/task/{self.running.pid}/children")
        if number != signal.SIGKILL:
            os.kill(self.running.pid, number)
        for pid in map(int, of_server.read_text().split()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    @contextlib.contextmanager
    def asked(self, database: str = "postgres") -> Iterator[psycopg.Connection[Any]]:
        """Run statements on a separate connection, each in its own transaction."""
        with psycopg.connect(
            host="127.0.0.1", port=self.port, user=USER, password=PASSWORD, dbname=database, autocommit=True,
            connect_timeout=10,
        ) as connection:  # fmt: skip
            yield connection

    def catalog(self, database: str = "postgres", **more: Any) -> Catalog:
        """The settings of a catalog in one of its databases."""
        uri = f"postgresql+psycopg://{USER}@127.0.0.1:{self.port}/{database}"
        return Catalog(**{"type": "sql", "uri": uri, "password_file": str(self.password_file), **more})


class Between:
    """A proxy to the database that breaks commits, in the order of ``fates``: `lost` (it is done, the
    response is lost), `never` (it does not arrive), `killed` (the server is killed when it arrives), "" (nothing)."""

    def __init__(self, database: PostgreSQL) -> None:
        self._database = database
        self.fates: list[str] = []
        self.happened: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def catalog(self, **more: Any) -> Catalog:
        uri = f"postgresql+psycopg://{USER}@127.0.0.1:{self.port}/postgres"
        return self._database.catalog(**{"uri": uri, **more})

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._meet, args=(client,), daemon=True).start()

    def _meet(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            server = socket.create_connection(("127.0.0.1", self._database.port))
            with server:
                back = threading.Thread(target=self._hand_on, args=(server, client), daemon=True)
                back.start()
                self._hand_on(client, server, self._fate)
                for each in (client, server):
                    with contextlib.suppress(OSError):
                        each.shutdown(socket.SHUT_RDWR)
                back.join()

    def _hand_on(self, here: socket.socket, there: socket.socket, fate: Callable[[bytes], str] = lambda _: "") -> None:
        """Forward data until one side, or a fault, ends the connection."""
        with contextlib.suppress(OSError):
            while said := here.recv(65536):
                met = fate(said)
                if met in ("lost", "killed"):
                    here.shutdown(socket.SHUT_RDWR)
                if met != "never":
                    there.sendall(said)
                if met == "killed":
                    self._database.kill()
                if met:
                    return
        with contextlib.suppress(OSError):
            there.shutdown(socket.SHUT_WR)

    def _fate(self, said: bytes) -> str:
        found = self.fates.pop(0) if b"COMMIT" in said and self.fates else ""
        if found:
            self.happened.append(found)
        return found


def _as_no_one() -> list[str]:
    if os.geteuid() != 0:
        return []
    return [str(tool("setpriv")), f"--reuid={NO_ONE}", f"--regid={NO_ONE}", "--clear-groups", "--"]
