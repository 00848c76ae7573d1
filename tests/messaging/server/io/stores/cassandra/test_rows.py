"""Ranges in parts, values in pieces; the statements themselves are tried in tests/conformance."""

from __future__ import annotations

import itertools

import pytest
from tests.support.processes import wait_until
from tests.support.topics.cassandra_twin import Disk

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.io.stores.cassandra import applier
from fairlead_messaging.server.io.stores.cassandra.applier import Applier, ApplyAttempt
from fairlead_messaging.server.io.stores.cassandra.rows import CassandraSnapshot, _NarrowableRange, _ValueAssembler
from fairlead_messaging.server.io.stores.cassandra.session import TooManyTombstones
from fairlead_messaging.server.store import buckets
from fairlead_messaging.server.store.buckets import Changes, Directory
from fairlead_messaging.server.store.layer import Layer
from fairlead_messaging.server.store.ordered_kv import Batch


def test_values_are_put_together_over_pages() -> None:
    whole = _ValueAssembler()
    assert list(whole.take([(b"a", 0, 2, b"1")])) == []
    assert list(whole.take([(b"a", 1, 2, b"2"), (b"a", 2, 3, b"stale"), (b"b", 0, 1, b"")])) == [
        (b"a", b"12"), (b"b", b"")
    ]  # fmt: skip


@pytest.mark.parametrize("down", [False, True])
def test_parts_cover_a_range_without_a_gap(down: bool) -> None:
    ask = _NarrowableRange(b"a", b"c")
    ask.narrow()
    ask.narrow()
    parts = []
    while (part := ask.last() if down else ask.first()) is not None:
        parts.append(part)
        if down:
            ask.drop_last()
        else:
            ask.drop_first()
    ordered = parts[::-1] if down else parts
    assert ordered[0][0] == b"a" and ordered[-1][1] == b"c" and len(parts) > 1
    assert all(before[1] == after[0] for before, after in itertools.pairwise(ordered))


def test_one_key_cannot_be_narrowed() -> None:
    ask = _NarrowableRange(b"a", b"a\x00")
    with pytest.raises(TooManyTombstones):
        for _ in range(1000):
            ask.narrow()


def snapshot_over(*rows: bytes, layer: Batch) -> tuple[CassandraSnapshot, list[int]]:
    disk, closed = Disk(), list[int]()
    batch = Batch()
    for row in rows:
        batch.put(row, b"row")
    disk.stored().apply([buckets.record_of(Layer.of(batch, 1), Directory(), Changes([], []))])
    over = Layer.of(layer, 2)
    return CassandraSnapshot(disk.stored(), Directory(), 2, (over,), lambda number: None, closed.append), closed


def test_layers_lie_over_rows() -> None:
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


# --- What is durable comes where it is read, behind every open snapshot.


def attempt(number: int) -> ApplyAttempt:
    batch = Batch()
    batch.put(b"T%d" % number, b"")
    layer = Layer.of(batch, number)
    return ApplyAttempt(layer, buckets.record_of(layer, Directory(), Changes([], [])), Directory())


def test_an_open_snapshot_holds_back_what_came_after_it() -> None:
    disk, shown = Disk(), [0]
    applying = Applier(disk.stored(), shown.append)
    applying.start()
    applying.add(attempt(1))
    wait_until("it is applied", lambda: applying.applied == 1, seconds=60)
    number, layers = applying.opened()
    assert (number, layers) == (1, ())
    applying.add(attempt(2))
    newer, layers = applying.opened()
    assert newer == 2 and [layer.number for layer in layers] == [2]
    assert applying.applied == 1 and shown[-1] == 1
    applying.closed(1)
    wait_until("it is applied", lambda: applying.applied == 2, seconds=60)
    assert len(disk.rows) == 2 and shown[-1] == 0
    applying.closed(2)
    applying.close(1)


def test_a_writer_without_room_is_refused_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applier, "ROOM_SECONDS", 0.0)
    monkeypatch.setattr(applier, "WAITING_MAX", 1)
    applying = Applier(Disk().stored(), lambda count: None)
    applying.wait_for_room()
    applying.add(attempt(1))
    with pytest.raises(StorageError, match="rows cannot be written"):
        applying.wait_for_room()
