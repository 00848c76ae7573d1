"""Two small files beside the outbox that help after a failed disk or a killed process; a power cut may lose them.

``outbox.db.handed-out``  the highest offset of each queue that was sent, so that after a kill every message in doubt
                          is known: it is at or below that offset
``outbox.db.totals``      the totals of the outbox, in two slots written in turn after each commit (``outbox.totals``)
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from fairlead_edge.io.file_access import PLAIN, FileAccess
from fairlead_edge.outbox import totals
from fairlead_edge.outbox.queues import QueueId
from fairlead_edge.outbox.totals import SLOT_BYTES, OutboxTotals

BYTES_MAX: Final = 64 * 1024
"""Enough for some hundred queues; if there are more, nothing is written."""

_decoder: Final = msgspec.json.Decoder(list[tuple[str, int, int]])


class HandedOutFile:
    """Open for as long as the store is.  If it cannot be written, it stays as it was; no caller waits for it."""

    def __init__(self, path: Path, access: FileAccess = PLAIN) -> None:
        self._name = path.name
        self._access = access
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._highest: dict[QueueId, int] = {}

    def read(self) -> dict[QueueId, int]:
        """The highest offset of each queue that was sent before this opening; empty if the file is damaged."""
        try:
            crc, size, rest = self._access.unseal(os.pread(self._file, BYTES_MAX, 0), self._name).split(b" ", 2)
            content = rest[: int(size)]
            if int(crc, 16) != zlib.crc32(content):
                return {}
            return {QueueId(endpoint, priority): offset for endpoint, priority, offset in _decoder.decode(content)}
        except (OSError, ValueError, RecursionError):
            return {}

    def begin(self, highest: Mapping[QueueId, int]) -> None:
        """Continue from these offsets; what was written for another store is dropped."""
        self._highest = dict(highest)
        self._write()

    def note(self, queue: QueueId, offsets: Iterable[int]) -> None:
        """Record these before they are sent; called on either of the store's threads."""
        highest = max(offsets, default=-1)
        if highest <= self._highest.get(queue, -1):
            return
        self._highest[queue] = highest
        self._write()

    def _write(self) -> None:
        content = msgspec.json.encode([(each.endpoint, each.priority, at) for each, at in self._highest.copy().items()])
        line = self._access.seal(b"%08x %d %b\n" % (zlib.crc32(content), len(content), content), self._name)
        if len(line) <= BYTES_MAX:
            with contextlib.suppress(OSError):
                os.pwrite(self._file, line, 0)

    def close(self) -> None:
        os.close(self._file)


class TotalsFile:
    """Open for as long as the store is.  If it cannot be written, the old totals stay; no caller waits for it."""

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
