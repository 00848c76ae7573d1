"""What a batch says of itself."""

from __future__ import annotations

from fairlead_messaging.server.store.memory_kv import MemoryKV
from fairlead_messaging.server.store.ordered_kv import PUT, Batch


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


def test_what_was_added_since_a_mark_is_taken_back() -> None:
    """And nothing else; the size follows."""
    batch = Batch()
    batch.put(b"a", b"1")
    mark = batch.mark()
    batch.put(b"b", b"22")
    batch.delete(b"a")
    batch.cut(mark)
    assert (batch.operations, batch.size) == ([(PUT, b"a", b"1")], 2)
