"""In which file a key lies."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fairlead_ingest.latest import newest

HOSTILE = ["", "/", "..", "a/b", "é", "\u202e", "\x00", "\x1f", "x" * 100_000, "%2F", "=", None]


@pytest.mark.parametrize(
    ("keys", "at_least", "count"),
    [(0, 1, 1), (10_000, 1, 1), (16_385, 1, 2), (1_000_000, 1, 64), (5, 8, 8), (10**12, 1, newest.BUCKETS_MAX)],
)
def test_a_bucket_stays_small_and_there_are_never_fewer(keys: int, at_least: int, count: int) -> None:
    """A power of two."""
    assert newest.bucket_count(keys, at_least) == count


def test_large_rows_have_more_buckets() -> None:
    """A file of them has to be held whole."""
    assert newest.bucket_count(10_000, row_bytes=1_000) == 1
    assert newest.bucket_count(10_000, row_bytes=100_000) == 16


def test_doubling_splits_a_bucket_and_moves_nothing_else() -> None:
    """Whatever the keys are."""
    keys = pa.table({"a": HOSTILE * 50, "b": list(range(len(HOSTILE) * 50))})
    for before, after in zip(
        newest.bucket_of(keys, 4).to_pylist(), newest.bucket_of(keys, 16).to_pylist(), strict=True
    ):
        assert after in set(newest.split_bucket(before, 4, 16))
    assert len(set(newest.bucket_of(keys, 16).to_pylist())) == 16
    assert set(newest.bucket_of(keys, 1).to_pylist()) == {0}


def test_the_hash_is_the_same_for_ever() -> None:
    """Files of older versions are found by it."""
    keys = pa.table({"a": pa.array(["press-1", None, "é"]), "b": pa.array([1, 2, None])})
    assert newest.bucket_of(keys, 4096).to_pylist() == [324, 2826, 2589]


def test_rounds_take_so_many_rows_or_one_bucket() -> None:
    """In order."""
    assert list(newest.rounds({3: 5, 1: 4, 2: 9, 0: 1}, 6)) == [[0, 1], [2], [3]]
    assert list(newest.rounds({}, 6)) == []
