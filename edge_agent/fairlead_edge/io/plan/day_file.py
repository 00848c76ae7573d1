"""``link.day``: the day's count of the line's bytes, in two slots written in turn.

Written before a batch leaves, with the batch in it, so that the end of the process, however it comes, forgets no
message; flushed now and then, so that a power cut forgets a minute.  A torn or damaged slot leaves the other.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import zlib
from pathlib import Path
from typing import Final

import msgspec

from fairlead_edge.outbox.plan.day import DayCount
from fairlead_wire.io import logs

NAME: Final = "link.day"
SLOT_BYTES: Final = 256

COUNT_MAX: Final = 1 << 53
"""More is damage."""

_log = logs.get("edge.plan")
_decoder: Final = msgspec.json.Decoder(tuple[str, float, int])


class DayFile:
    """Open while the agent runs.  A disk that takes nothing leaves the old count; no caller waits for it.

    Where it cannot be opened the agent runs all the same, and counts from its start: said once.
    """

    def __init__(self, folder: Path) -> None:
        self._turn = 0
        self._file: int | None = None
        try:
            self._file = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            _log.error(
                "day_file_unusable",
                path=str(folder / NAME),
                reason=error.strerror,
                remedy="remove it or give it to the agent's user, and start again; until then a start begins at 0",
            )

    def read(self) -> DayCount | None:
        """None: nothing was counted yet, or it cannot be read."""
        found = [each for slot in range(2) if (each := self._slot(slot)) is not None]
        return max(found, key=lambda each: (each.date, each.began, each.used), default=None)

    def write(self, count: DayCount) -> None:
        """Survives the end of the process; not yet a power cut."""
        self._turn ^= 1
        content = msgspec.json.encode((count.date, count.began, count.used))
        line = b"%08x %b\n" % (zlib.crc32(content), content)
        if self._file is None:
            return
        with contextlib.suppress(OSError):
            os.pwrite(self._file, line.ljust(SLOT_BYTES), self._turn * SLOT_BYTES)

    def flush(self) -> None:
        """Survives a power cut; may take its time."""
        if self._file is None:
            return
        with contextlib.suppress(OSError):
            os.fdatasync(self._file)

    def close(self) -> None:
        file, self._file = self._file, None  # its number may be another file's soon
        if file is not None:
            os.close(file)

    def _slot(self, number: int) -> DayCount | None:
        if self._file is None:
            return None
        try:
            crc, content = os.pread(self._file, SLOT_BYTES, number * SLOT_BYTES).split(b" ", 1)
            content = content.rstrip()
            if int(crc, 16) != zlib.crc32(content):
                return None
            date, began, used = _decoder.decode(content)
            datetime.date.fromisoformat(date)
        except (OSError, ValueError):
            return None
        return DayCount(date, began, used) if 0 <= used <= COUNT_MAX else None
