"""The memory twin's own housekeeping; what all stores promise is in tests/conformance."""

from __future__ import annotations

from fairlead_messaging.server.log import kv
from fairlead_messaging.server.log.kv import Batch, MemoryKV


def test_deleted_keys_do_not_pile_up() -> None:
    """They are forgotten once nobody can see them."""
    store = MemoryKV()
    for number in range(kv.DEAD_KEYS_MAX + 10):
        batch = Batch()
        batch.put(str(number).encode(), b"")
        store.apply(batch)
        batch = Batch()
        batch.delete(str(number).encode())
        store.apply(batch)
    assert len(store._keys) <= kv.DEAD_KEYS_MAX + 1


def test_batches_know_their_size_and_join() -> None:
    """Keys and values, so that a group write can be bounded."""
    batch, other = Batch(), Batch()
    batch.put(b"key", b"value")
    other.delete(b"k")
    other.delete_range(b"a", b"b")
    batch.remove(other)
    assert (len(batch), batch.size) == (3, 11)


def test_a_batch_knows_what_it_will_leave() -> None:
    """Puts, deletes and ranges in their order, else the store."""
    store, batch = MemoryKV(), Batch()
    before = Batch()
    before.put(b"a", b"1")
    store.apply(before)
    assert batch.latest(b"a", store) == b"1"
    batch.put(b"a", b"2")
    assert batch.latest(b"a", store) == b"2"
    batch.delete_range(b"a", b"b")
    assert batch.latest(b"a", store) is None
    batch.put(b"a", b"3")
    batch.delete(b"a")
    assert batch.latest(b"a", store) is None
    assert batch.latest(b"b", store) is None
