"""A wall clock that a test moves, for real processes and while they run: no process can see that it is a test.

clock = FakeClock(folder)
agent.extra = clock.environ
clock.move(days=120)

A small library (fake_clock.c) answers what the processes, their OpenSSL included, ask of the C library for the time.
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
        """For processes that have this clock."""
        return {"LD_PRELOAD": str(self._library), "FAKE_CLOCK": str(self._file)}

    def move(self, *, days: float = 0.0, seconds: float = 0.0) -> None:
        """It shows so much more than the true time from now on; 0: the true time."""
        content = struct.pack("d", days * 86_400.0 + seconds)
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(content)

    def set(self, moment: datetime.datetime) -> None:
        """It shows this now, and runs on."""
        self.move(seconds=moment.timestamp() - time.time())
