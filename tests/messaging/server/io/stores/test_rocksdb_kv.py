"""RocksDB's own; what all stores promise is in tests/conformance."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.io.stores.rocksdb_kv import RocksKV
from fairlead_messaging.server.store.ordered_kv import Batch


def test_a_directory_is_open_once(tmp_path: Path) -> None:
    """A second process is refused, instead of both writing."""
    store = RocksKV(tmp_path)
    with pytest.raises(StorageError):
        RocksKV(tmp_path)
    store.close()
    RocksKV(tmp_path).close()


def test_a_closed_store_refuses(tmp_path: Path) -> None:
    """As a StorageError, like every failure of the engine."""
    store = RocksKV(tmp_path)
    store.close()
    with pytest.raises(StorageError):
        store.apply(Batch())
    with pytest.raises(StorageError):
        store.get(b"k")
