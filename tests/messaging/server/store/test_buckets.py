"""Into which partition a key goes."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_messaging.server.store import buckets
from fairlead_messaging.server.store.buckets import LETTERS, Changes, Directory, changes, group
from fairlead_messaging.server.store.layer import UNTOUCHED, Layer, flattened, joined, lookup, over
from fairlead_messaging.server.store.memory_kv import MemoryKV
from fairlead_messaging.server.store.ordered_kv import Batch

TOPIC = b"Ms:t:\x00\x00\x00\x01"


def layer(*keys: bytes, emptied: tuple[bytes, bytes] | None = None) -> Layer:
    batch = Batch()
    if emptied is not None:
        batch.delete_range(*emptied)
    for key in keys:
        batch.put(key, b"")
    return Layer.of(batch, 1)


def test_a_topics_generation_is_a_group_in_tables_that_grow() -> None:
    """Names may hold anything but a colon; what is cut short belongs to its letter."""
    assert group(TOPIC + b"rest") == TOPIC
    assert group(TOPIC) is None and group(b"Ms:t") is None and group(b"") is None and group(b"Ts:t:12345") is None


def test_buckets_are_contiguous() -> None:
    directory = Directory([TOPIC])
    assert directory.bucket(b"") == b"" and directory.bucket(b"Ma") == b"M" and directory.bucket(TOPIC + b"x") == TOPIC
    assert directory.end(b"M") == TOPIC and directory.end(TOPIC) == b"O" and directory.end(b"Y") is None
    assert list(directory.spans(b"Mz", b"P")) == [(TOPIC, b"Mz", b"O"), (b"O", b"O", b"P")]
    assert list(directory.spans_down(b"Mz", b"P")) == [(b"O", b"O", b"P"), (TOPIC, b"Mz", b"O")]
    assert list(directory.spans(b"b", b"a")) == [] == list(directory.spans_down(b"a", b"a"))
    assert len(directory) == len(LETTERS) + 2 and TOPIC in directory and b"Ms" not in directory


def test_the_first_row_begins_a_bucket_where_none_lies() -> None:
    assert changes(Directory(), layer(TOPIC + b"1"), {}, lambda low, high: None) == Changes([TOPIC], [])
    assert changes(Directory(), layer(TOPIC + b"1"), {}, lambda low, high: TOPIC + b"0") == Changes([], [])


def test_a_full_bucket_is_followed_by_another() -> None:
    directory, full = Directory([TOPIC]), {TOPIC: 100}
    keys = layer(TOPIC + b"1", TOPIC + b"5", TOPIC + b"6")
    assert changes(directory, keys, full, lambda low, high: TOPIC + b"3", 100).added == [TOPIC + b"5"]
    assert changes(directory, keys, full, lambda low, high: TOPIC + b"9", 100).added == []
    assert full[TOPIC] == 50  # not asked again with every batch


def test_a_bucket_ends_with_a_range_that_covers_its_rows() -> None:
    """Also when the range begins with the first of its rows; letters stay."""
    split = TOPIC + b"5"
    directory = Directory([TOPIC, split])
    emptied = layer(emptied=(TOPIC + b"1", TOPIC + b"7"))
    assert changes(directory, emptied, {}, lambda low, high: None).dropped == [TOPIC]
    assert changes(directory, emptied, {}, lambda low, high: TOPIC).dropped == []
    assert changes(directory, layer(emptied=(b"L", b"O")), {}, lambda low, high: None).dropped == [TOPIC, split]
    assert directory.changed([b"Mz"], [TOPIC]).bucket(TOPIC) == b"M"


# --- A batch as changes that may be done again.


def test_a_record_says_everything() -> None:
    """Buckets are named in it, so it needs no directory; a range is cut where buckets end."""
    batch = Batch()
    batch.delete_range(b"L", b"O")
    batch.put(b"Mx", b"1")
    batch.delete(b"T1")
    record = buckets.record_of(Layer.of(batch, 9), Directory([b"Mx"]), Changes([b"Mx"], [b"Old"]))
    assert buckets.decode_record(buckets.encode_record(record)) == record
    assert (record.number, record.range_time, record.row_time) == (9, 18, 19)
    assert record.sizes == {b"Mx": 0} and record.dropped == [b"Old"]
    assert {each.bucket: (each.ranges, each.rows) for each in record.buckets} == {
        b"L": ([(b"L", b"M")], []),
        b"M": ([(b"M", b"Mx")], []),
        b"Mx": ([(b"Mx", b"O")], [(b"Mx", b"1")]),
        b"T": ([], [(b"T1", None)]),
    }


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(msgspec.MsgspecError):
        buckets.decode_record(b"\x93\x01")


def test_values_are_cut_in_pieces() -> None:
    assert list(buckets.value_pieces(b"", 2)) == [b""]
    assert list(buckets.value_pieces(b"abcde", 2)) == [b"ab", b"cd", b"e"]


# --- What one batch changes, over what lies below.


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
    layer = Layer.of(
        batch_of(
            ("put", b"a", b"1"), ("put", b"c", b"1"), ("range", b"b", b"d"), ("put", b"c1", b"2"), ("delete", b"x", b"")
        ),
        7,
    )
    assert [layer.lookup(key) for key in (b"a", b"b", b"c", b"c1", b"d", b"x")] == [
        b"1",
        None,
        None,
        b"2",
        UNTOUCHED,
        None,
    ]
    assert layer.number == 7 and list(layer.points_in(b"a", b"c2")) == [b"a", b"c1"]
    assert list(layer.ranges_in(b"c", b"z")) == [(b"c", b"d")]


def test_the_newest_layer_wins() -> None:
    old, new = (
        Layer.of(batch_of(("put", b"a", b"1"), ("put", b"b", b"1")), 1),
        Layer.of(batch_of(("range", b"a", b"b")), 2),
    )
    assert (
        lookup((old, new), b"a") is None and lookup((old, new), b"b") == b"1" and lookup((old, new), b"c") is UNTOUCHED
    )
    assert lookup((), b"a") is UNTOUCHED


def test_ranges_are_joined() -> None:
    assert joined([(b"c", b"d"), (b"a", b"b"), (b"b", b"b1"), (b"c1", b"c2")]) == [(b"a", b"b1"), (b"c", b"d")]


some = st.binary(max_size=2)
operations = st.lists(st.tuples(st.sampled_from(["put", "delete", "range"]), some, some), max_size=8)


@pytest.mark.slow
@given(base=operations, batches=st.lists(operations, max_size=4), low=some, high=some)
def test_rows_under_layers_are_the_rows_of_a_store(
    base: list[tuple[str, bytes, bytes]], batches: list[list[tuple[str, bytes, bytes]]], low: bytes, high: bytes
) -> None:
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
            assert flat.lookup(key) == lookup(layers, key)
