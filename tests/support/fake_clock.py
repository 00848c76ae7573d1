"""A wall clock that a test moves while real processes run with it.

clock = FakeClock(folder)
agent.extra = clock.environ
clock.move(days=120)

A small library (fake_clock.c) replaces the time functions of the C library for these processes, OpenSSL included.
Monotonic clocks run on, and so does the clock of files.
"""

from __future__ import annotations

import datetime
import struct
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support.tools import tool

SOURCE = Path(__file__).with_suffix(".c")
COMPILE_SECONDS = 60.0


class FakeClock:
    """Skips the test where no C compiler is installed."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self._library = folder / "fake_clock.so"
        self.move()
        command = [str(tool("gcc")), "-shared", "-fPIC", "-O1", "-o", str(self._library), str(SOURCE), "-lm"]
        subprocess.run(command, check=True, timeout=COMPILE_SECONDS)

    @property
    def environ(self) -> Mapping[str, str]:
        """Environment variables for processes with this clock."""
        return {"LD_PRELOAD": str(self._library), "FAKE_CLOCK": str(self._file)}

    def move(self, *, days: float = 0.0, seconds: float = 0.0) -> None:
        """Add this to the true time from now on; 0: show the true time."""
        content = struct.pack("d", days * 86_400.0 + seconds)
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(content)

    def set(self, moment: datetime.datetime) -> None:
        """Show this time now, and continue from it."""
        self.move(seconds=moment.timestamp() - time.time())
