"""A batch as changes that may be done again."""

from __future__ import annotations

import msgspec
import pytest

from fairlead_messaging.server.store import buckets
from fairlead_messaging.server.store.buckets import Changes, Directory
from fairlead_messaging.server.store.layer import Layer
from fairlead_messaging.server.store.ordered_kv import Batch


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
    """As one error."""
    with pytest.raises(msgspec.MsgspecError):
        buckets.decode_record(b"\x93\x01")


def test_values_are_cut_in_pieces() -> None:
    """An empty one is one piece."""
    assert list(buckets.value_pieces(b"", 2)) == [b""]
    assert list(buckets.value_pieces(b"abcde", 2)) == [b"ab", b"cd", b"e"]
