"""``link.day``: the day's count of the line's bytes, in two slots written in turn.

Written before a batch leaves, with the batch in it, so that the end of the process, however it comes, forgets no
message; flushed now and then, so that a power cut forgets a minute.  A torn or damaged slot leaves the other.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from pathlib import Path
from typing import Final

import msgspec

from fairlead_edge.outbox.plan.day import DayCount

NAME: Final = "link.day"
SLOT_BYTES: Final = 256

_decoder: Final = msgspec.json.Decoder(tuple[str, float, int])


class DayFile:
    """Open while the agent runs.  A disk that takes nothing leaves the old count; no caller waits for it."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._turn = 0

    def read(self) -> DayCount | None:
        """None: nothing was counted yet, or it cannot be read."""
        found = [each for slot in range(2) if (each := self._slot(slot)) is not None]
        return max(found, key=lambda each: (each.date, each.began, each.used), default=None)

    def write(self, count: DayCount) -> None:
        """Survives the end of the process; not yet a power cut."""
        self._turn ^= 1
        content = msgspec.json.encode((count.date, count.began, count.used))
        line = b"%08x %b\n" % (zlib.crc32(content), content)
        with contextlib.suppress(OSError):
            os.pwrite(self._file, line.ljust(SLOT_BYTES), self._turn * SLOT_BYTES)

    def flush(self) -> None:
        """Survives a power cut; may take its time."""
        with contextlib.suppress(OSError):
            os.fdatasync(self._file)

    def close(self) -> None:
        os.close(self._file)

    def _slot(self, number: int) -> DayCount | None:
        try:
            crc, content = os.pread(self._file, SLOT_BYTES, number * SLOT_BYTES).split(b" ", 1)
            content = content.rstrip()
            if int(crc, 16) != zlib.crc32(content):
                return None
            date, began, used = _decoder.decode(content)
        except (OSError, ValueError):
            return None
        return DayCount(date, began, used)
