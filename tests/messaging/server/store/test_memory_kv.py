"""The memory twin's own housekeeping; what all stores promise is in tests/conformance."""

from __future__ import annotations

from fairlead_messaging.server.store.memory_kv import DEAD_KEYS_MAX, MemoryKV
from fairlead_messaging.server.store.ordered_kv import Batch


def test_deleted_keys_do_not_pile_up() -> None:
    """They are forgotten once no snapshot can see them."""
    store = MemoryKV()
    for number in range(DEAD_KEYS_MAX + 10):
        batch = Batch()
        batch.put(str(number).encode(), b"")
        store.apply(batch)
        batch = Batch()
        batch.delete(str(number).encode())
        store.apply(batch)
    assert len(store._keys) <= DEAD_KEYS_MAX + 1
