"""Records on disk which processes a run started, so that another process can end exactly these.

A process is known by its id and the kernel's start time of it: an id that was given to another process does not match.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

GONE_SECONDS = 60.0
PROGRESS_SECONDS = 5.0
START_TIME_FIELD = 19


def started_at(pid: int) -> int | None:
    """The kernel's start time of a living process in clock ticks since boot; None when it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[START_TIME_FIELD])


class Record:
    """A JSON file with name → process id and start time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, folder: Path) -> Record:
        """The record of the run whose state is in `folder`."""
        return cls(folder / "running.json")

    def write(self, pids: Mapping[str, int]) -> None:
        """Replace the record atomically; processes already gone are left out."""
        found = {name: {"pid": pid, "started": started_at(pid)} for name, pid in pids.items()}
        draft = self.path.with_suffix(".draft")
        draft.write_text(json.dumps({name: each for name, each in found.items() if each["started"]}, indent=1))
        draft.rename(self.path)

    def alive(self) -> dict[str, int]:
        """Name → id of what is recorded and still the same process."""
        if not self.path.exists():
            return {}
        recorded = json.loads(self.path.read_text())
        return {name: each["pid"] for name, each in recorded.items() if started_at(each["pid"]) == each["started"]}

    def end(self, waiting: Callable[[list[str]], None] = lambda names: None) -> list[str]:
        """Ask everything that is alive to end, last started first; after GONE_SECONDS kill; returns the names.

        `waiting` is called with what has not ended yet, at first and then every PROGRESS_SECONDS.
        """
        names = list(self.alive())
        for pid in reversed(self.alive().values()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        now = time.monotonic()
        deadline, due = now + GONE_SECONDS, now
        while (left := list(self.alive())) and (now := time.monotonic()) < deadline:
            if now >= due:
                due = now + PROGRESS_SECONDS
                waiting(left)
            time.sleep(0.1)
        for pid in self.alive().values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        self.path.unlink(missing_ok=True)
        return names
