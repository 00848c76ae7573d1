"""Writes the batches of the journal to the rows where they are read, and knows which of them are not there yet.

A batch waits until all snapshots from before it are closed, so the rows of an open snapshot never change.  If that
would hold up writing, snapshots that are too old are invalidated.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.io.stores.cassandra.rows import BucketRows
from fairlead_messaging.server.io.stores.cassandra.session import SLOTS
from fairlead_messaging.server.store.buckets import Directory, RedoRecord
from fairlead_messaging.server.store.layer import Layer
from fairlead_wire.io import logs

WAITING_MAX: Final = SLOTS - 2
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
SNAPSHOT_SECONDS: Final = 4.0
"""How long a writer without room waits for snapshots: less than a lease, which it cannot renew meanwhile."""
ROOM_SECONDS: Final = 30.0
RETRY_SECONDS: Final = 0.5

_log = logs.get("messaging.cassandra")


class ApplyAttempt(NamedTuple):
    """A batch that is being written."""

    layer: Layer
    record: RedoRecord
    directory: Directory
    """The directory of buckets including the batch."""


class Applier:
    """Applies batches in a background thread; ``changed`` guards its state and is notified."""

    def __init__(self, rows: BucketRows, show_unapplied: Callable[[int], None]) -> None:
        self._rows = rows
        self._show_unapplied = show_unapplied
        self.changed = threading.Condition(threading.RLock())
        self._waiting: list[ApplyAttempt] = []
        self._open: Counter[int] = Counter()
        self._newest = 0
        self.applied = 0
        """Every batch up to this number is applied."""
        self.floor = 0
        """Snapshots from before this batch are invalid."""
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, name="cassandra-applier", daemon=True)
        self._closing = False

    def start(self) -> None:
        self._thread.start()

    def begin(self, number: int) -> None:
        """Start from this number: all batches up to it are applied, and snapshots from before are invalid."""
        with self.changed:
            self._waiting.clear()
            if number != self._newest:
                self.floor = number
            self._newest = self.applied = number
            self.changed.notify_all()

    def add(self, attempt: ApplyAttempt) -> None:
        """Add a batch that is durable in the journal."""
        with self.changed:
            self._waiting.append(attempt)
            self._newest = attempt.layer.number
            self._show_unapplied(len(self._waiting))
            self.changed.notify_all()

    def opened(self) -> tuple[int, tuple[Layer, ...]]:
        """Open a snapshot: its number, and the layers that are not applied yet."""
        with self.changed:
            self._open[self._newest] += 1
            return self._newest, tuple(each.layer for each in self._waiting)

    def closed(self, number: int) -> None:
        with self.changed:
            self._open[number] -= 1
            if not self._open[number]:
                del self._open[number]
            self.changed.notify_all()

    def wait_for_room(self) -> None:
        """Wait until the journal has room for another batch.  Raises: StorageError."""
        began = time.monotonic()
        with self.changed:
            while not self._has_room():
                waited = time.monotonic() - began
                if waited >= SNAPSHOT_SECONDS and self.floor < self._newest:
                    _log.warning("snapshots_given_up", open=sum(self._open.values()), waiting=len(self._waiting))
                    self.floor = self._newest
                    self.changed.notify_all()
                if waited >= ROOM_SECONDS:
                    raise StorageError(f"cassandra: rows cannot be written: {self._trouble or 'it takes too long'}")
                self.changed.wait(0.5)

    def close(self, seconds: float) -> None:
        """Stop; wait that long for pending batches, which are safe in the journal in any case."""
        with self.changed:
            self.changed.wait_for(lambda: not self._waiting or self._trouble, seconds)
            self._closing = True
            self.changed.notify_all()
        self._thread.join()

    def _has_room(self) -> bool:
        size = sum(each.layer.size for each in self._waiting)
        return len(self._waiting) < WAITING_MAX and size < WAITING_BYTES_MAX

    def _due(self) -> list[ApplyAttempt]:
        oldest = min((number for number in self._open if number >= self.floor), default=self._newest)
        return [each for each in self._waiting if each.layer.number <= oldest]

    def _run(self) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self._closing or bool(self._due()))
                if self._closing:
                    return
                due = self._due()
            try:
                self._rows.apply([each.record for each in due])
                self._trouble = ""
            except StorageError as error:
                if not self._trouble:
                    _log.warning("rows_not_written", reason=str(error), batches=len(due))
                self._trouble = str(error)
                with self.changed:
                    self.changed.wait_for(lambda: self._closing, RETRY_SECONDS)
                continue
            with self.changed:
                if self._waiting[: len(due)] != due:
                    continue  # ``begin`` was called meanwhile
                del self._waiting[: len(due)]
                self.applied = due[-1].layer.number
                self._show_unapplied(len(self._waiting))
                self.changed.notify_all()
