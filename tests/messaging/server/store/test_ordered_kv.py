"""What the port does for its stores; what they promise is in tests/conformance."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.store.memory_kv import DEAD_KEYS_MAX, MemoryKV
from fairlead_messaging.server.store.ordered_kv import PUT, Batch, SnapshotBase, storage_errors


class Rows(SnapshotBase):
    """Nine rows, which notes how many of them are asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def scan(self, low: bytes, high: bytes) -> Iterator[tuple[bytes, bytes]]:
        for number in range(9):
            self.asked.append(number)
            yield b"%d" % number, b"four"

    def close(self) -> None:
        return


def test_the_beginning_of_a_scan_is_read_no_further_than_its_limits() -> None:
    rows = Rows()
    assert rows.take(b"", b"x", 100, 10) == ([b"0", b"1", b"2"], [b"four"] * 3)
    assert rows.asked == [0, 1, 2]
    assert rows.take(b"", b"x", 2, 100) == ([b"0", b"1"], [b"four"] * 2)


def test_errors_of_an_engine_become_storage_errors() -> None:
    with pytest.raises(StorageError, match=r"^engine read: 7$"), storage_errors("engine read", KeyError):
        raise KeyError(7)
    with pytest.raises(ValueError, match="x"), storage_errors("engine read", KeyError):
        raise ValueError("x")
    with pytest.raises(StorageError, match=r"^as it is$"), storage_errors("engine read"):
        raise StorageError("as it is")


# --- What a batch says of itself.


def test_batches_know_their_size_and_join() -> None:
    """Keys and values, so that a group write can be bounded."""
    batch, other = Batch(), Batch()
    batch.put(b"key", b"value")
    other.delete(b"k")
    other.delete_range(b"a", b"b")
    batch.remove(other)
    assert (len(batch), batch.size) == (3, 11)


def test_a_batch_knows_what_it_will_leave() -> None:
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
    batch = Batch()
    batch.put(b"a", b"1")
    mark = batch.mark()
    batch.put(b"b", b"22")
    batch.delete(b"a")
    batch.cut(mark)
    assert (batch.operations, batch.size) == ([(PUT, b"a", b"1")], 2)


def test_deleted_keys_do_not_pile_up() -> None:
    store = MemoryKV()
    for number in range(DEAD_KEYS_MAX + 10):
        batch = Batch()
        batch.put(str(number).encode(), b"")
        store.apply(batch)
        batch = Batch()
        batch.delete(str(number).encode())
        store.apply(batch)
    assert len(store._keys) <= DEAD_KEYS_MAX + 1
