"""SQLite's own; what all stores promise is in tests/conformance."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_messaging.errors import StorageError
from fairlead_messaging.io import sqlite_kv
from fairlead_messaging.io.sqlite_kv import SqliteKV
from fairlead_messaging.kv import Batch


def test_commits_are_on_disk(tmp_path: Path) -> None:
    """Full synchronisation with the write-ahead log, nothing less."""
    store = SqliteKV(tmp_path)
    assert store._writer.execute("PRAGMA synchronous").fetchone() == (2,)
    assert store._writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


def test_a_get_does_not_wait_for_a_write(tmp_path: Path) -> None:
    """The event loop asks for single keys while the disk is busy."""
    store = SqliteKV(tmp_path)
    with store._lock:
        assert store.get(b"k") is None
    store.close()


def test_connections_of_closed_snapshots_are_used_again(tmp_path: Path) -> None:
    """And no more are kept than allowed."""
    store = SqliteKV(tmp_path)
    snapshots = [store.snapshot() for _ in range(sqlite_kv.IDLE_READERS_MAX + 3)]
    for each in snapshots:
        each.close()
    assert len(store._idle) == sqlite_kv.IDLE_READERS_MAX
    store.close()


def test_a_closed_store_refuses(tmp_path: Path) -> None:
    """As a StorageError."""
    store = SqliteKV(tmp_path)
    store.close()
    with pytest.raises(StorageError):
        store.apply(Batch())
    with pytest.raises(StorageError):
        store.snapshot()
