"""The store in memory."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Iterator

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.store.ordered_kv import DELETE, PUT, Batch, OneWriter, SnapshotBase

DEAD_KEYS_MAX = 10_000
"""How many deleted keys it keeps before it purges them."""


class MemoryKV(OneWriter):
    """Versions per key, so that a snapshot costs nothing and never changes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: list[bytes] = []
        self._versions: dict[bytes, list[tuple[int, bytes | None]]] = {}
        self._sequence = 0
        self._open: dict[int, int] = {}
        self._dead = 0
        self._closed = False

    def apply(self, batch: Batch) -> None:
        with self._lock:
            self._check_open()
            self._sequence += 1
            for kind, key, value in batch.operations:
                if kind == PUT:
                    self._write(key, value)
                elif kind == DELETE:
                    self._write(key, None)
                else:
                    for doomed in self._keys[
                        bisect.bisect_left(self._keys, key) : bisect.bisect_left(self._keys, value)
                    ]:
                        self._write(doomed, None)
            if self._dead > DEAD_KEYS_MAX and not self._open:
                self._purge_dead(0, len(self._keys))

    def get(self, key: bytes) -> bytes | None:
        with self._lock:
            self._check_open()
            return self._read(key, self._sequence)

    def snapshot(self, *, sequential: bool = False) -> MemorySnapshot:
        with self._lock:
            self._check_open()
            self._open[self._sequence] = self._open.get(self._sequence, 0) + 1
            return MemorySnapshot(self, self._sequence)

    def compact(self, low: bytes, high: bytes) -> None:
        """Drop deleted keys of the range that no open snapshot can see."""
        with self._lock:
            if self._open:
                return
            self._purge_dead(bisect.bisect_left(self._keys, low), bisect.bisect_left(self._keys, high))

    def reclaim(self) -> None:
        """Does nothing: memory has no files."""

    def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("the store is closed")

    def _purge_dead(self, start: int, stop: int) -> None:
        kept = []
        for key in self._keys[start:stop]:
            if self._versions[key][-1][1] is None:
                del self._versions[key]
            else:
                kept.append(key)
        self._dead -= stop - start - len(kept)
        self._keys[start:stop] = kept

    def _write(self, key: bytes, value: bytes | None) -> None:
        versions = self._versions.get(key)
        if versions is None:
            if value is None:
                return
            self._versions[key] = [(self._sequence, value)]
            if not self._keys or key > self._keys[-1]:
                self._keys.append(key)
            else:
                bisect.insort(self._keys, key)
            return
        self._dead += (value is None) - (versions[-1][1] is None)
        if not self._open:
            versions.clear()
        versions.append((self._sequence, value))

    def _read(self, key: bytes, sequence: int) -> bytes | None:
        for written, value in reversed(self._versions.get(key, ())):
            if written <= sequence:
                return value
        return None

    def _next(self, low: bytes, high: bytes, sequence: int, *, inclusive: bool) -> tuple[bytes, bytes] | None:
        with self._lock:
            find = bisect.bisect_left if inclusive else bisect.bisect_right
            index = find(self._keys, low)
            while index < len(self._keys) and self._keys[index] < high:
                value = self._read(self._keys[index], sequence)
                if value is not None:
                    return self._keys[index], value
                index += 1
            return None

    def _previous(self, low: bytes, high: bytes, sequence: int) -> tuple[bytes, bytes] | None:
        with self._lock:
            index = bisect.bisect_left(self._keys, high) - 1
            while index >= 0 and self._keys[index] >= low:
                value = self._read(self._keys[index], sequence)
                if value is not None:
                    return self._keys[index], value
                index -= 1
            return None

    def _release(self, sequence: int) -> None:
        with self._lock:
            self._open[sequence] -= 1
            if not self._open[sequence]:
                del self._open[sequence]


class MemorySnapshot(SnapshotBase):
    """The memory store as it was after one batch."""

    def __init__(self, store: MemoryKV, sequence: int) -> None:
        self._store: MemoryKV | None = store
        self._sequence = sequence

    def _source(self) -> MemoryKV:
        if self._store is None:
            raise StorageError("the snapshot is closed")
        return self._store

    def get(self, key: bytes) -> bytes | None:
        store = self._source()
        with store._lock:
            return store._read(key, self._sequence)

    def scan(self, low: bytes, high: bytes) -> Iterator[tuple[bytes, bytes]]:
        row = self._source()._next(low, high, self._sequence, inclusive=True)
        while row is not None:
            yield row
            row = self._source()._next(row[0], high, self._sequence, inclusive=False)

    def last_below(self, low: bytes, high: bytes) -> tuple[bytes, bytes] | None:
        return self._source()._previous(low, high, self._sequence)

    def close(self) -> None:
        if self._store is not None:
            self._store._release(self._sequence)
            self._store = None
