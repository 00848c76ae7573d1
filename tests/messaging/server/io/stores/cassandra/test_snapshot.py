"""Rows and the layers over them."""

from __future__ import annotations

import pytest
from tests.support.topics.cassandra_twin import Disk

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.io.stores.cassandra.rows import CassandraSnapshot
from fairlead_messaging.server.store import buckets
from fairlead_messaging.server.store.buckets import Changes, Directory
from fairlead_messaging.server.store.layer import Layer
from fairlead_messaging.server.store.ordered_kv import Batch


def snapshot_over(*rows: bytes, layer: Batch) -> tuple[CassandraSnapshot, list[int]]:
    disk, closed = Disk(), list[int]()
    batch = Batch()
    for row in rows:
        batch.put(row, b"row")
    disk.stored().apply([buckets.record_of(Layer.of(batch, 1), Directory(), Changes([], []))])
    over = Layer.of(layer, 2)
    return CassandraSnapshot(disk.stored(), Directory(), 2, (over,), lambda number: None, closed.append), closed


def test_layers_lie_over_rows() -> None:
    """In single reads, scans and from the end."""
    batch = Batch()
    batch.delete_range(b"b", b"e")
    batch.put(b"c", b"new")
    snapshot, closed = snapshot_over(b"a", b"b", b"d", b"e", layer=batch)
    assert [snapshot.get(key) for key in (b"a", b"b", b"c", b"x")] == [b"row", None, b"new", None]
    assert [key for key, _ in snapshot.scan(b"", b"z")] == [b"a", b"c", b"e"]
    assert snapshot.take(b"b", b"z", 1, 10) == ([b"c"], [b"new"])
    assert snapshot.last_below(b"a", b"e") == (b"c", b"new")
    assert snapshot.last_below(b"a", b"c") == (b"a", b"row")
    assert snapshot.last_below(b"b", b"c") is None and snapshot.last_below(b"z", b"a") is None
    snapshot.close()
    snapshot.close()
    assert closed == [2]
    with pytest.raises(StorageError, match="closed"):
        snapshot.get(b"a")
