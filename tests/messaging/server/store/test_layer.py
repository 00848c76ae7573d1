"""What one batch changes, over what lies below."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fairlead_messaging.server.store.layer import SILENT, Layer, flattened, joined, over, says
from fairlead_messaging.server.store.memory_kv import MemoryKV
from fairlead_messaging.server.store.ordered_kv import Batch

HIGH = b"\xff\xff"


def batch_of(*operations: tuple[str, bytes, bytes]) -> Batch:
    batch = Batch()
    for what, first, second in operations:
        if what == "put":
            batch.put(first, second)
        elif what == "delete":
            batch.delete(first)
        else:
            batch.delete_range(first, second)
    return batch


def test_a_layer_says_value_gone_or_nothing() -> None:
    """Later operations win over earlier ones, ranges too."""
    layer = Layer.of(
        batch_of(
            ("put", b"a", b"1"), ("put", b"c", b"1"), ("range", b"b", b"d"), ("put", b"c1", b"2"), ("delete", b"x", b"")
        ),
        7,
    )
    assert [layer.says(key) for key in (b"a", b"b", b"c", b"c1", b"d", b"x")] == [b"1", None, None, b"2", SILENT, None]
    assert layer.number == 7 and list(layer.points_in(b"a", b"c2")) == [b"a", b"c1"]
    assert list(layer.ranges_in(b"c", b"z")) == [(b"c", b"d")]


def test_the_newest_layer_wins() -> None:
    """Of those that say anything."""
    old, new = (
        Layer.of(batch_of(("put", b"a", b"1"), ("put", b"b", b"1")), 1),
        Layer.of(batch_of(("range", b"a", b"b")), 2),
    )
    assert says((old, new), b"a") is None and says((old, new), b"b") == b"1" and says((old, new), b"c") is SILENT
    assert says((), b"a") is SILENT


def test_ranges_are_joined() -> None:
    """Touching and overlapping ones become one."""
    assert joined([(b"c", b"d"), (b"a", b"b"), (b"b", b"b1"), (b"c1", b"c2")]) == [(b"a", b"b1"), (b"c", b"d")]


some = st.binary(max_size=2)
operations = st.lists(st.tuples(st.sampled_from(["put", "delete", "range"]), some, some), max_size=8)


@given(base=operations, batches=st.lists(operations, max_size=4), low=some, high=some)
def test_rows_under_layers_are_the_rows_of_a_store(
    base: list[tuple[str, bytes, bytes]], batches: list[list[tuple[str, bytes, bytes]]], low: bytes, high: bytes
) -> None:
    """Whatever the batches, between any two keys."""
    below, whole = MemoryKV(), MemoryKV()
    below.apply(batch_of(*base))
    whole.apply(batch_of(*base))
    for each in batches:
        whole.apply(batch_of(*each))
    layers = [Layer.of(batch_of(*each), number) for number, each in enumerate(batches)]
    with below.snapshot() as under, whole.snapshot() as expected:
        assert list(over(under.scan(low, high), layers, low, high)) == list(expected.scan(low, high))
    flat = flattened(layers, low, high)
    for key in (low, b"", b"a"):
        if low <= key < high:
            assert flat.says(key) == says(layers, key)
