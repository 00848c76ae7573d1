"""What only SQLite or only RocksDB does; what all stores promise is in tests/conformance."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.io.stores import sqlite_kv
from fairlead_messaging.server.io.stores.rocksdb_kv import RocksKV
from fairlead_messaging.server.io.stores.sqlite_kv import SqliteKV
from fairlead_messaging.server.store.ordered_kv import Batch


def test_commits_are_on_disk(tmp_path: Path) -> None:
    store = SqliteKV(tmp_path)
    assert store._writer.execute("PRAGMA synchronous").fetchone() == (2,)
    assert store._writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


def test_a_get_does_not_wait_for_a_write(tmp_path: Path) -> None:
    store = SqliteKV(tmp_path)
    with store._lock:
        assert store.get(b"k") is None
    store.close()


def test_connections_of_closed_snapshots_are_used_again(tmp_path: Path) -> None:
    store = SqliteKV(tmp_path)
    snapshots = [store.snapshot() for _ in range(sqlite_kv.IDLE_READERS_MAX + 3)]
    for each in snapshots:
        each.close()
    assert len(store._idle) == sqlite_kv.IDLE_READERS_MAX
    store.close()


@pytest.mark.parametrize("kind", [SqliteKV, RocksKV])
def test_a_closed_store_refuses(kind: type[SqliteKV] | type[RocksKV], tmp_path: Path) -> None:
    store = kind(tmp_path)
    store.close()
    for use in (lambda: store.apply(Batch()), lambda: store.get(b"k"), store.snapshot):
        with pytest.raises(StorageError):
            use()


def test_a_snapshot_does_not_wait_for_a_write(tmp_path: Path) -> None:
    store = SqliteKV(tmp_path)
    store.apply(putting(b"k", b"before"))
    with store._lock:
        store._writer.execute("BEGIN IMMEDIATE")
        store._writer.execute("INSERT OR REPLACE INTO kv VALUES (?, ?)", (b"k", b"after"))
        with store.snapshot() as snapshot:
            assert snapshot.get(b"k") == b"before"
        store._writer.execute("COMMIT")
    assert store.get(b"k") == b"after"
    store.close()


def putting(key: bytes, value: bytes) -> Batch:
    batch = Batch()
    batch.put(key, value)
    return batch


def fill_and_empty(store: SqliteKV, count: int = 400) -> None:
    """Forty megabytes, of which nothing stays."""
    for number in range(count):
        store.apply(putting(b"k%06d" % number, bytes(100_000)))
    gone = Batch()
    gone.delete_range(b"k", b"l")
    store.apply(gone)


def size(folder: Path) -> int:
    return (folder / sqlite_kv.FILE_NAME).stat().st_size


@pytest.mark.slow
def test_the_file_shrinks_by_and_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_kv, "RECLAIM_PAGES_MAX", 4096)
    store = SqliteKV(tmp_path)
    fill_and_empty(store)
    store.apply(putting(b"kept", b"v"))
    sizes = [size(tmp_path)]
    while len(sizes) < 2 or sizes[-1] < sizes[-2]:
        store.reclaim()
        sizes.append(size(tmp_path))
        assert sizes[-2] - sizes[-1] <= 5000 * 4096
    assert sizes[0] > 40_000_000 and sizes[-1] < 6_000_000 and len(sizes) > 3
    assert store.get(b"kept") == b"v"
    assert (tmp_path / f"{sqlite_kv.FILE_NAME}-wal").stat().st_size <= sqlite_kv.LOG_BYTES_KEPT
    store.close()


def test_a_directory_is_open_once(tmp_path: Path) -> None:
    store = RocksKV(tmp_path)
    with pytest.raises(StorageError):
        RocksKV(tmp_path)
    store.close()
    RocksKV(tmp_path).close()
