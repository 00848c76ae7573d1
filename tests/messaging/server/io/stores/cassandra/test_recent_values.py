"""Values at hand are those of the newest batch."""

from __future__ import annotations

from fairlead_messaging.server.io.stores.cassandra.cassandra_kv import KEYS_MAX, VALUE_BYTES_MAX, RecentValues
from fairlead_messaging.server.store.layer import SILENT, Layer
from fairlead_messaging.server.store.ordered_kv import Batch


def test_a_batch_changes_what_is_at_hand() -> None:
    """Rewritten, deleted, in a range, too large; what is not asked for is not kept."""
    recent = RecentValues()
    for key in (b"a", b"b", b"c", b"d"):
        recent.keep(key, b"0", 0)
    batch = Batch()
    batch.delete_range(b"c", b"d")
    batch.put(b"a", b"1")
    batch.delete(b"b")
    batch.put(b"d", bytes(VALUE_BYTES_MAX + 1))
    batch.put(b"e", b"1")
    recent.apply(Layer.of(batch, 1))
    assert [recent.get(key) for key in (b"a", b"b", b"c", b"d", b"e")] == [
        (b"1", 1), (None, 1), (SILENT, 1), (SILENT, 1), (SILENT, 1)
    ]  # fmt: skip


def test_what_was_read_before_a_batch_is_not_kept() -> None:
    """It may be older."""
    recent = RecentValues()
    recent.apply(Layer.of(Batch(), 1))
    recent.keep(b"a", b"old", 0)
    assert recent.get(b"a") == (SILENT, 1)


def test_it_is_bounded() -> None:
    """The least recently asked for goes."""
    recent = RecentValues()
    for number in range(KEYS_MAX + 1):
        recent.keep(b"%d" % number, b"", 0)
    assert recent.get(b"0")[0] is SILENT and recent.get(b"1")[0] == b""
    recent.clear(5)
    assert recent.get(b"1") == (SILENT, 5)
