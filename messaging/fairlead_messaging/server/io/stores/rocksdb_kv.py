"""The ordered key-value port on RocksDB.

Every batch is one WriteBatch with a synced write-ahead log, so it is on disk before ``apply`` returns and before
readers see it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rocksdict

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.store.ordered_kv import DELETE, PUT, Batch, OneWriter, SnapshotBase, storage_errors

WRITE_BUFFER_BYTES = 64 * 1024 * 1024
WRITE_BUFFERS_MAX = 4
OPEN_FILES_MAX = 1024
BACKGROUND_JOBS = 2
BLOCK_BYTES = 16 * 1024
"""Four times RocksDB's default: scans have a cost per block, and a single get still takes microseconds."""


class RocksKV(OneWriter):
    """A RocksDB in a directory, for a single process.  Without ``create`` it must exist."""

    def __init__(self, directory: Path, *, create: bool = True, open_files_max: int = OPEN_FILES_MAX) -> None:
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(create)
        options.set_write_buffer_size(WRITE_BUFFER_BYTES)
        options.set_max_write_buffer_number(WRITE_BUFFERS_MAX)
        options.set_max_open_files(open_files_max)
        options.increase_parallelism(BACKGROUND_JOBS)
        options.set_compression_type(rocksdict.DBCompressionType.lz4())
        blocks = rocksdict.BlockBasedOptions()
        blocks.set_block_size(BLOCK_BYTES)
        options.set_block_based_table_factory(blocks)
        # A bulk reader reads each block once: caching blocks for it costs more than it saves, and evicts those that
        # polls use.
        self._passing = rocksdict.ReadOptions()
        self._passing.fill_cache(False)  # type: ignore[call-arg]  # its type stub forgot the argument
        self._sync = rocksdict.WriteOptions()
        self._sync.sync = True
        if create:
            directory.mkdir(parents=True, exist_ok=True)
        with storage_errors("rocksdb open"):
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
        with storage_errors("rocksdb write"):
            self._db.write(native, self._sync)

    def get(self, key: bytes) -> bytes | None:
        with storage_errors("rocksdb read"):
            found: bytes | None = self._db.get(key)
            return found

    def snapshot(self, *, sequential: bool = False) -> RocksSnapshot:
        with storage_errors("rocksdb read"):
            return RocksSnapshot(self._db.iter(self._passing) if sequential else self._db.iter())

    def compact(self, low: bytes, high: bytes) -> None:
        with storage_errors("rocksdb compact"):
            self._db.compact_range(low, high)

    def reclaim(self) -> None:
        """Does nothing: compaction replaces old files by itself."""

    def halt(self) -> None:
        """End background work, which would reach files by name."""
        with storage_errors("rocksdb halt"):
            self._db.cancel_all_background(True)

    def close(self) -> None:
        with storage_errors("rocksdb close"):
            self._db.close()


class RocksSnapshot(SnapshotBase):
    """A native iterator, which sees the store as it was when the iterator was created.

    The snapshot objects of the binding do not isolate their iterators from later writes (rocksdict 0.3.29), but a
    single iterator is isolated.  So it serves all calls; a scan seeks back if another call has moved it.
    """

    def __init__(self, native: Any) -> None:
        self._native = native
        self._moves = 0

    def _source(self) -> Any:
        if self._native is None:
            raise StorageError("the snapshot is closed")
        self._moves += 1
        return self._native

    def get(self, key: bytes) -> bytes | None:
        rows = self._source()
        with storage_errors("rocksdb read"):
            rows.seek(key)
            if rows.valid() and rows.key() == key:
                found: bytes = rows.value()
                return found
            rows.status()
            return None

    def scan(self, low: bytes, high: bytes) -> Iterator[tuple[bytes, bytes]]:
        rows = self._source()
        mine = self._moves
        with storage_errors("rocksdb read"):
            rows.seek(low)
            while rows.valid():
                key = rows.key()
                if key >= high:
                    return
                yield key, rows.value()
                if self._moves == mine:
                    rows.next()
                else:
                    rows = self._source()
                    mine = self._moves
                    rows.seek(key + b"\x00")
            rows.status()

    def take(self, low: bytes, high: bytes, rows_max: int, bytes_max: int) -> tuple[list[bytes], list[bytes]]:
        rows = self._source()
        # Bound methods in variables: the three calls into the engine are nearly the whole cost of a row.
        key_of, value_of, advance = rows.key, rows.value, rows.next
        keys: list[bytes] = []
        values: list[bytes] = []
        add_key, add_value, size = keys.append, values.append, 0
        with storage_errors("rocksdb read"):
            rows.seek(low)
            for _ in range(rows_max):
                key = key_of()
                if key is None:  # the end, or an error of the engine
                    rows.status()
                    break
                if key >= high:
                    break
                value = value_of()
                add_key(key)
                add_value(value)
                size += len(value)
                if size >= bytes_max:
                    break
                advance()
        return keys, values

    def last_below(self, low: bytes, high: bytes) -> tuple[bytes, bytes] | None:
        rows = self._source()
        with storage_errors("rocksdb read"):
            rows.seek_for_prev(high)
            if rows.valid() and rows.key() >= high:
                rows.prev()
            if rows.valid() and rows.key() >= low:
                return rows.key(), rows.value()
            rows.status()
            return None

    def close(self) -> None:
        self._native = None
