"""RocksDB behind the ordered key-value port.

Every batch is one WriteBatch with a synced write-ahead log, so ``apply`` returns only after the disk has
it; readers see a batch only after that.  Snapshots and iterators are native and released on close.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import rocksdict

from fairlead_messaging.errors import StorageError
from fairlead_messaging.kv import DELETE, PUT, Batch

WRITE_BUFFER_BYTES = 64 * 1024 * 1024
WRITE_BUFFERS_MAX = 4
OPEN_FILES_MAX = 1024
BACKGROUND_JOBS = 2


class RocksKV:
    """One RocksDB in one directory; only one process may have it open."""

    def __init__(self, directory: Path) -> None:
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(WRITE_BUFFER_BYTES)
        options.set_max_write_buffer_number(WRITE_BUFFERS_MAX)
        options.set_max_open_files(OPEN_FILES_MAX)
        options.increase_parallelism(BACKGROUND_JOBS)
        options.set_compression_type(rocksdict.DBCompressionType.lz4())
        self._sync = rocksdict.WriteOptions()
        self._sync.sync = True
        directory.mkdir(parents=True, exist_ok=True)
        with _storage_errors("open"):
            self._db = rocksdict.Rdict(str(directory), options)

    def apply(self, batch: Batch) -> None:
        native = rocksdict.WriteBatch(raw_mode=True)
        put = native.put
        for kind, key, value in batch.operations:
            if kind == PUT:
                put(key, value)
            elif kind == DELETE:
                native.delete(key)
            elif key < value:
                native.delete_range(key, value)
        with _storage_errors("write"):
            self._db.write(native, self._sync)

    def compare_and_set(self, key: bytes, expected: bytes | None, value: bytes) -> bool:
        # The port has one writer at a time, so reading first is enough.
        if self.get(key) != expected:
            return False
        batch = Batch()
        batch.put(key, value)
        self.apply(batch)
        return True

    def get(self, key: bytes) -> bytes | None:
        with _storage_errors("read"):
            found: bytes | None = self._db.get(key)
            return found

    def snapshot(self) -> RocksSnapshot:
        with _storage_errors("read"):
            return RocksSnapshot(self._db.snapshot())

    def compact(self, low: bytes, high: bytes) -> None:
        with _storage_errors("compact"):
            self._db.compact_range(low, high)

    def close(self) -> None:
        with _storage_errors("close"):
            self._db.close()


class RocksSnapshot:
    """A native snapshot; dropping the last reference releases it."""

    def __init__(self, native: Any) -> None:
        self._native = native

    def _source(self) -> Any:
        if self._native is None:
            raise StorageError("the snapshot is closed")
        return self._native

    def get(self, key: bytes) -> bytes | None:
        # The native get raises one and the same exception for "absent" and "broken"; an iterator tells them apart.
        for _, value in self.scan(key, key + b"\x00"):
            return value
        return None

    def scan(self, low: bytes, high: bytes) -> Iterator[tuple[bytes, bytes]]:
        native = self._source()
        if low >= high:
            return
        bounded = rocksdict.ReadOptions()
        bounded.set_iterate_upper_bound(high)
        with _storage_errors("read"):
            yield from native.items(from_key=low, read_opt=bounded)

    def last_below(self, low: bytes, high: bytes) -> tuple[bytes, bytes] | None:
        native = self._source()
        if low >= high:
            return None
        bounded = rocksdict.ReadOptions()
        bounded.set_iterate_lower_bound(low)
        bounded.set_iterate_upper_bound(high)
        with _storage_errors("read"):
            rows = native.iter(bounded)
            rows.seek_to_last()
            return (rows.key(), rows.value()) if rows.valid() else None

    def close(self) -> None:
        self._native = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _storage_errors:
    """rocksdict raises plain Exception for everything the engine reports; callers get StorageError."""

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, StorageError):
            raise StorageError(f"rocksdb {self._doing}: {error}") from error
