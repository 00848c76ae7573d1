"""``outbox.db.totals``: the outbox's totals beside it, in two slots written in turn after each commit (``totals``)."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from fairlead_edge.io.file_access import PLAIN, FileAccess
from fairlead_edge.outbox import totals
from fairlead_edge.outbox.totals import SLOT_BYTES, OutboxTotals


class TotalsFile:
    """Open for as long as the store is.  A disk that takes nothing leaves the old totals; no caller waits for it."""

    def __init__(self, path: Path, access: FileAccess = PLAIN) -> None:
        self._name = path.name
        self._access = access
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._turn = 0

    def read(self) -> OutboxTotals | None:
        return totals.newest(self._slot(slot) for slot in range(2))

    def _slot(self, number: int) -> bytes:
        try:
            return self._access.unseal(os.pread(self._file, SLOT_BYTES, number * SLOT_BYTES), self._name)
        except ValueError:
            return b""

    def write(self, current: OutboxTotals) -> None:
        """Called on the writer's thread; not flushed."""
        self._turn ^= 1
        if content := totals.encode(current):
            with contextlib.suppress(OSError):
                os.pwrite(self._file, self._access.seal(content, self._name), self._turn * SLOT_BYTES)

    def close(self) -> None:
        os.close(self._file)
