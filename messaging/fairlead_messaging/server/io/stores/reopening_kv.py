"""A store that recovers by itself: after a full or read-only disk, or if its directory disappears and returns.

    write fails ─→ broken: reads work as far as the engine allows, writes are refused with the reason
      ▲   │ next write: is it still the file that was opened, is there room?
      │   └─yes→ readers drained ─→ closed ─→ opened again ─→ writes
      └────no── refused with the reason

After an error an engine may refuse everything until it is reopened (RocksDB after ENOSPC), and if its files were
removed it may keep writing to deleted files.  So before a write is acknowledged, the store checks that its files are
still where they were opened.  While they are not, nothing is read, written or closed: engines reach files by name, and
another store may be there now.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.io.stores.data_dir import ServiceDataDir
from fairlead_messaging.server.store.ordered_kv import Batch, OneWriter, OrderedKV, Snapshot, SnapshotBase
from fairlead_wire.io import logs

ROOM_BYTES = 1024 * 1024
"""Free space required to reopen a store: opening writes, and a store that fails to open cannot even be read."""
DRAIN_SECONDS = 10.0
"""How long reopening waits for readers to finish; new ones are refused meanwhile."""

_log = logs.get("messaging.store")

Identity = tuple[int, int]


class Engine(OrderedKV, Protocol):
    """A store that can be halted before it is closed."""

    def halt(self) -> None:
        """Stop touching files, as far as the engine can."""
        ...


class ReopeningKV(OneWriter):
    """``open_store(create)`` opens the store; ``watched`` is a file that exists as long as the store does."""

    def __init__(self, folder: ServiceDataDir, open_store: Callable[[bool], Engine], watched: Path) -> None:
        self._folder = folder
        self._open = open_store
        self._watched = watched
        self._store: Engine | None = open_store(True)
        self._file = _identity(watched)
        self._is_away = False
        self._changed = threading.Condition()
        self._readers = 0
        self._opening = False
        self.trouble = ""
        """Why writes are refused; "" if they are not."""
        self.reopened = 0

    def apply(self, batch: Batch) -> None:
        try:
            if self.trouble:
                self._heal()
            self._engine().apply(batch)
            self._check_place()
        except StorageError as error:
            self.trouble = str(error)
            raise

    def get(self, key: bytes) -> bytes | None:
        return self._engine().get(key)

    def snapshot(self, *, sequential: bool = False) -> Snapshot:
        with self._changed:
            if self._opening:
                raise StorageError("the store is being opened again")
            self._readers += 1
        try:
            return _CountedSnapshot(self._engine().snapshot(sequential=sequential), self._leave)
        except BaseException:
            self._leave()
            raise

    def compact(self, low: bytes, high: bytes) -> None:
        if self.trouble:
            raise StorageError(self.trouble)
        self._engine().compact(low, high)

    def reclaim(self) -> None:
        if not self.trouble:
            self._engine().reclaim()

    def close(self) -> None:
        try:
            if self._store is not None and not self._is_away:
                self._store.close()
        finally:
            self._folder.close()

    def _engine(self) -> Engine:
        store = self._store
        if store is None or self._is_away:
            raise StorageError(self.trouble or "the store is being opened again")
        return store

    def _leave(self) -> None:
        with self._changed:
            self._readers -= 1
            self._changed.notify_all()

    def _check_place(self) -> None:
        """Raises: StorageError if ``data_dir`` no longer names the store to which was just written."""
        if self._is_in_place():
            return
        self._is_away = True
        self._current().halt()
        raise StorageError(
            f"data_dir {self._folder.path} was removed or replaced while the service was running; restore it, "
            "or restart the service with the present one"
        )

    def _is_in_place(self) -> bool:
        return self._folder.is_ours() and _identity(self._watched) == self._file

    def _current(self) -> Engine:
        assert self._store is not None
        return self._store

    def _heal(self) -> None:
        """Reopen the store if the disk allows.  Raises: StorageError while it does not."""
        if not self._is_in_place():
            if self._store is not None and not self._is_away:
                self._check_place()
            raise StorageError(self.trouble)
        self._is_away = False
        _check_room(self._folder.path)
        with self._changed:
            self._opening = True
            self._changed.wait_for(lambda: not self._readers, DRAIN_SECONDS)
        try:
            before, self._store = self._store, None
            if before is not None:
                _close(before)
            store = self._open(False)
        finally:
            with self._changed:
                self._opening = False
        self._store = store
        _log.warning("store_reopened", reason=self.trouble)
        self.trouble = ""
        self.reopened += 1


class _CountedSnapshot(SnapshotBase):
    """A snapshot that calls ``leave`` when it is closed."""

    def __init__(self, snapshot: Snapshot, leave: Callable[[], None]) -> None:
        self._snapshot = snapshot
        self._leave: Callable[[], None] | None = leave
        self.get = snapshot.get
        self.last_below = snapshot.last_below

    def scan(self, low: bytes, high: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._snapshot.scan(low, high)

    def take(self, low: bytes, high: bytes, rows_max: int, bytes_max: int) -> tuple[list[bytes], list[bytes]]:
        return self._snapshot.take(low, high, rows_max, bytes_max)

    def close(self) -> None:
        leave, self._leave = self._leave, None
        if leave is not None:
            self._snapshot.close()
            leave()


def _identity(path: Path) -> Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _check_room(folder: Path) -> None:
    """Raises: StorageError unless that much can be written durably."""
    probe = folder / "room"
    try:
        file = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, bytes(ROOM_BYTES))
            os.fsync(file)
            written = os.fstat(file).st_size
        finally:
            os.close(file)
            probe.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"data_dir {folder}: {error.strerror}; writes resume once this is over") from error
    if written < ROOM_BYTES:
        raise StorageError(f"data_dir {folder}: less than {ROOM_BYTES} bytes free; writes resume once there is room")


def _close(store: OrderedKV) -> None:
    try:
        store.close()
    except StorageError as error:
        # The engine failed before; its files are released nevertheless.
        _log.info("store_closed", reason=str(error))
