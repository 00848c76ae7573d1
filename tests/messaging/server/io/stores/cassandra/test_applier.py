"""What is durable comes where it is read, behind every open snapshot."""

from __future__ import annotations

import pytest
from tests.support.processes import wait_until
from tests.support.topics.cassandra_twin import Disk

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.io.stores.cassandra import applier
from fairlead_messaging.server.io.stores.cassandra.applier import Applier, ApplyAttempt
from fairlead_messaging.server.store import buckets
from fairlead_messaging.server.store.buckets import Changes, Directory
from fairlead_messaging.server.store.layer import Layer
from fairlead_messaging.server.store.ordered_kv import Batch


def attempt(number: int) -> ApplyAttempt:
    batch = Batch()
    batch.put(b"T%d" % number, b"")
    layer = Layer.of(batch, number)
    return ApplyAttempt(layer, buckets.record_of(layer, Directory(), Changes([], [])), Directory())


def test_an_open_snapshot_holds_back_what_came_after_it() -> None:
    """And nothing else."""
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
    """With the reason."""
    monkeypatch.setattr(applier, "ROOM_SECONDS", 0.0)
    monkeypatch.setattr(applier, "WAITING_MAX", 1)
    applying = Applier(Disk().stored(), lambda count: None)
    applying.wait_for_room()
    applying.add(attempt(1))
    with pytest.raises(StorageError, match="rows cannot be written"):
        applying.wait_for_room()
