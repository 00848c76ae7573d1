"""A store that comes back by itself: after a full or read-only disk, or a folder that went away and returned.

    write fails ─→ broken: reads go on as far as the engine lets them, writes are refused with the reason
      ▲   │ next write: is it still the file that was opened, is there room?
      │   └─yes→ readers drained ─→ closed ─→ opened again ─→ writes
      └────no── refused with the reason

An engine that met an error may refuse forever what a fresh look at the disk would allow (RocksDB after ENOSPC), and
one whose files were removed may go on writing to files without a name.  So every write ends with a look whether the
store is still where it was opened, before anything is acknowledged.  While it is not, nothing is read, written or
closed: engines reach their files by name, and another store may lie there now.
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
"""Room there must be before a store is opened again: opening writes, and one that fails to open cannot be read."""
DRAIN_SECONDS = 10.0
"""How long opening again waits for readers; they are asked to come back meanwhile."""

_log = logs.get("messaging.store")

Identity = tuple[int, int]


class Engine(OrderedKV, Protocol):
    """A store that can be halted."""

    def halt(self) -> None:
        """Touch no file from now on, as far as that can be had."""
        ...


class ReopeningKV(OneWriter):
    """``open_store(create)`` opens it; ``watched`` is a file of the store that exists as long as the store does."""

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
        """Why writes are refused; "" when all is well."""
        self.reopened = 0

    def apply(self, batch: Batch) -> None:
        try:
            if self.trouble:
                self._heal()
            self._there().apply(batch)
            self._check_place()
        except StorageError as error:
            self.trouble = str(error)
            raise

    def get(self, key: bytes) -> bytes | None:
        return self._there().get(key)

    def snapshot(self, *, sequential: bool = False) -> Snapshot:
        with self._changed:
            if self._opening:
                raise StorageError("the store is being opened again")
            self._readers += 1
        try:
            return _CountedSnapshot(self._there().snapshot(sequential=sequential), self._leave)
        except BaseException:
            self._leave()
            raise

    def compact(self, low: bytes, high: bytes) -> None:
        if self.trouble:
            raise StorageError(self.trouble)
        self._there().compact(low, high)

    def reclaim(self) -> None:
        if not self.trouble:
            self._there().reclaim()

    def close(self) -> None:
        try:
            if self._store is not None and not self._is_away:
                self._store.close()
        finally:
            self._folder.close()

    def _there(self) -> Engine:
        store = self._store
        if store is None or self._is_away:
            raise StorageError(self.trouble or "the store is being opened again")
        return store

    def _leave(self) -> None:
        with self._changed:
            self._readers -= 1
            self._changed.notify_all()

    def _check_place(self) -> None:
        """What was just written is on the disk that ``data_dir`` names, or it is not acknowledged."""
        if self._is_in_place():
            return
        self._is_away = True
        self._there_or_away().halt()
        raise StorageError(
            f"data_dir {self._folder.path} was removed or replaced under the running service; bring it back, "
            "or start the service again on what is there now"
        )

    def _is_in_place(self) -> bool:
        return self._folder.is_ours() and _identity(self._watched) == self._file

    def _there_or_away(self) -> Engine:
        assert self._store is not None
        return self._store

    def _heal(self) -> None:
        """Open it again when the disk allows.  Raises: StorageError while it does not."""
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
    """A snapshot that says when it is given back."""

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
    """Raises: StorageError when not even this much can be written durably."""
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
        raise StorageError(f"data_dir {folder}: {error.strerror}; writes go on when this is over") from error
    if written < ROOM_BYTES:
        raise StorageError(f"data_dir {folder}: less than {ROOM_BYTES} bytes free; writes go on when there is room")


def _close(store: OrderedKV) -> None:
    try:
        store.close()
    except StorageError as error:
        # It met an error before; it is released all the same.
        _log.info("store_closed", reason=str(error))
