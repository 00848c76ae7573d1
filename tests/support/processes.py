"""Real processes for tests: started with a log, killed with their parent, polled with a deadline.

start(...) ──► Running ──► wait_until(condition) ──► stop() | kill()
                 └── every failure text contains the log's tail
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.05
STOP_SECONDS = 60.0
LOG_TAIL_LINES = 25
LOG_LINE_CHARS = 600
PR_SET_PDEATHSIG = 1
PORTS = range(15_000, 30_000)
"""Below the ephemeral ports (32768 to 60999) and the cluster's node ports (30000 to 32767)."""

_libc = ctypes.CDLL(None, use_errno=True)
_dice = random.SystemRandom()
_given: set[int] = set()
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")


class Unmet(AssertionError):
    """A condition did not come true in time; the text says which, how long, and what was seen last."""


def wait_until(
    what: str,
    condition: Callable[[], T],
    *,
    seconds: float,
    every: float = POLL_SECONDS,
    describe: Callable[[], str] = lambda: "",
) -> T:
    """Poll `condition` until its result is true and return it; raise Unmet after `seconds`.

    A condition may raise OSError or AssertionError while things come up: that counts as "not yet" and is reported on
    failure; Unmet (for example of `require_alive`) ends the wait at once. `describe` adds state to the failure, for
    example a log's tail.
    """
    deadline = time.monotonic() + seconds
    seen = "it answered nothing"
    while True:
        try:
            answer = condition()
            if answer:
                return answer
            seen = f"it answered {answer!r}"
        except Unmet:
            raise
        except (OSError, AssertionError) as error:
            seen = f"{type(error).__name__}: {error}"
        if time.monotonic() >= deadline:
            raise Unmet(f"{what}: not within {seconds:g} s; {seen}\n{describe()}".rstrip())
        time.sleep(every)


def free_ports(count: int) -> list[int]:
    """Ports that are free now, all different, none given twice by this process.

    They are below the kernel's ephemeral ports: neither an outgoing connection nor a listener on port 0 can take
    one before its program listens, or while that program is killed and started again.
    """
    found: list[int] = []
    for port in _dice.sample(PORTS, len(PORTS)):
        if len(found) == count:
            break
        if port in _given:
            continue
        with socket.socket() as looking, contextlib.suppress(OSError):
            looking.bind(("127.0.0.1", port))
            found.append(port)
            _given.add(port)
    return found


def die_with_parent() -> None:
    """In the child, before exec: the kernel kills it when the thread that forked it ends, even by SIGKILL."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def shortened(line: str, chars: int = LOG_LINE_CHARS) -> str:
    """Both ends of a long line: the subject is at the start, and in a traceback the reason is at the end."""
    return line if len(line) <= chars else f"{line[: chars // 2]} … {line[-chars // 2 :]}"


class Running:
    """A started program: its log and its exit."""

    def __init__(self, name: str, command: Sequence[str], log: Path, process: subprocess.Popen[bytes]) -> None:
        self.name = name
        self.command = tuple(command)
        self.log = log
        self.process = process

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    @property
    def alive(self) -> bool:
        """True while it runs."""
        return self.process.poll() is None

    def tail(self, lines: int = LOG_TAIL_LINES) -> str:
        """The end of its log, after its name."""
        text = self.log.read_text(errors="replace").splitlines()[-lines:] if self.log.exists() else []
        text = [shortened(line) for line in text]
        state = "running" if self.alive else f"exited with {self.process.returncode}"
        return "\n".join([f"--- {self.name} ({state}), end of {self.log}", *text])

    def require_alive(self) -> None:
        """Raise Unmet, with the log's tail, if it has ended by itself."""
        if not self.alive:
            raise Unmet(f"{self.name} ended by itself\n{self.tail()}")

    def stop(self, seconds: float = STOP_SECONDS) -> int:
        """SIGTERM, then SIGKILL after `seconds`; returns the exit code (negative: the signal). Safe to call twice."""
        if self.alive:
            self.process.terminate()
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()
        self._sweep()
        return self.process.returncode

    def kill(self) -> None:
        """kill -9, with its whole process group; returns when it is gone."""
        self._sweep()
        self.process.wait()

    def _sweep(self) -> None:
        # The group outlives its leader when the program left children behind (Spark's JVM does).
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return


def start(
    name: str,
    command: Sequence[str],
    log: Path,
    *,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
    outlive: bool = False,
) -> Running:
    """Start `command` with its output appended to `log`, in its own process group.

    It dies with this process, even by SIGKILL, unless `outlive`.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = _spawner.submit(
            subprocess.Popen,
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=None if environ is None else dict(environ),
            cwd=folder,
            start_new_session=True,
            preexec_fn=None if outlive else die_with_parent,
        ).result()
    return Running(name, command, log, process)
