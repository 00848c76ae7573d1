"""The newest row of each key, in any order and any portions, and the bucket of a key."""

from __future__ import annotations

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given
from tests.support.tables.latest_rows import SCHEMA, Row, model

from fairlead_ingest.latest import newest
from fairlead_ingest.latest.definition import DELETED, LatestDefinition

ROWS = st.lists(
    st.builds(
        Row,
        node=st.sampled_from([None, "", "a", "b"]),
        number=st.integers(0, 30),
        enqueued=st.one_of(st.none(), st.integers(-40, 60)),
        value=st.integers(0, 2),
        topic=st.sampled_from(["x", "y"]),
    ),
    max_size=12,
    unique_by=lambda row: (row.number, row.topic),
)
ORDERS: list[tuple[str, ...]] = [(), ("enqueued_at",), ("value",)]


def found(rows: list[Row], definition: LatestDefinition) -> pa.Table:
    table = pa.Table.from_pylist([row.plain() for row in rows], schema=SCHEMA)
    candidates = newest.candidates(table, definition).append_column("id", table["_id"])
    return newest.newest(candidates, len(definition.key), len(definition.order))


def ids(rows: pa.Table) -> dict[str | None, str]:
    return dict(zip(rows["k0"].to_pylist(), rows["id"].to_pylist(), strict=True))


@pytest.mark.slow
@given(ROWS, st.sampled_from(ORDERS), st.randoms(use_true_random=False), st.integers(0, 12))
def test_it_is_the_models_in_any_order_and_in_any_portions(rows, order, random, at):
    definition = LatestDefinition(key=("node",), order_by=order)
    expected = {key[0]: id for key, (id, _, _) in model(rows, definition).items()}
    whole = found(rows, definition)
    assert ids(whole) == expected
    random.shuffle(rows)
    left, right = found(rows[:at], definition), found(rows[at:], definition)
    joined = newest.newest(pa.concat_tables([right, left, right]), 1, len(definition.order))
    assert ids(joined) == expected


def test_a_clock_that_is_ahead_counts_as_the_time_of_publishing():
    """Else a device whose clock stood in 2099 for a minute would keep that row for good."""
    definition = LatestDefinition(key=("node",), order_by=("enqueued_at",))
    ahead, right, behind = Row(number=1, enqueued=10**8), Row(number=5, enqueued=4), Row(number=9, enqueued=-500)
    assert ids(found([ahead, right, behind], definition)) == {"n": right.id}


@pytest.mark.parametrize(
    ("row", "deleted"),
    [
        (Row(op="d"), True),
        (Row(op="D"), False),
        (Row(), False),
        (Row(properties='{"op": "delete", "x": 1}'), True),
        (Row(properties='{"op": "del\\u0065te"}'), True),
        (Row(properties='{"op": 3}'), True),
        (Row(properties='{"op": "3"}'), False),
        (Row(properties='{"op": {"op": "delete"}}'), False),
        (Row(properties='"broken'), False),
        (Row(properties="[]"), False),
    ],
)
def test_a_row_deletes_by_a_column_or_by_a_property(row, deleted):
    """A property is compared as JSON; what is no object of properties deletes nothing."""
    definition = LatestDefinition(
        key=("node",), delete_when={"op": ("d",), "properties.op": ("delete",), "value": (7,)}
    )
    if row.properties and "3" in row.properties:
        definition = LatestDefinition(key=("node",), delete_when={"properties.op": (3,)})
    assert found([row], definition)[DELETED].to_pylist() == [deleted]


HOSTILE = ["", "/", "..", "a/b", "é", "\u202e", "\x00", "\x1f", "x" * 100_000, "%2F", "=", None]


@pytest.mark.parametrize(
    ("keys", "at_least", "count"),
    [(0, 1, 1), (10_000, 1, 1), (16_385, 1, 2), (1_000_000, 1, 64), (5, 8, 8), (10**12, 1, newest.BUCKETS_MAX)],
)
def test_a_bucket_stays_small_and_there_are_never_fewer(keys, at_least, count):
    assert newest.bucket_count(keys, at_least) == count


def test_large_rows_have_more_buckets():
    assert newest.bucket_count(10_000, row_bytes=1_000) == 1
    assert newest.bucket_count(10_000, row_bytes=100_000) == 16


def test_doubling_splits_a_bucket_and_moves_nothing_else():
    keys = pa.table({"a": HOSTILE * 50, "b": list(range(len(HOSTILE) * 50))})
    for before, after in zip(
        newest.bucket_of(keys, 4).to_pylist(), newest.bucket_of(keys, 16).to_pylist(), strict=True
    ):
        assert after in set(newest.split_bucket(before, 4, 16))
    assert len(set(newest.bucket_of(keys, 16).to_pylist())) == 16
    assert set(newest.bucket_of(keys, 1).to_pylist()) == {0}


def test_the_hash_is_the_same_for_ever():
    keys = pa.table({"a": pa.array(["press-1", None, "é"]), "b": pa.array([1, 2, None])})
    assert newest.bucket_of(keys, 4096).to_pylist() == [324, 2826, 2589]


def test_rounds_take_so_many_rows_or_one_bucket():
    assert list(newest.rounds({3: 5, 1: 4, 2: 9, 0: 1}, 6)) == [[0, 1], [2], [3]]
    assert list(newest.rounds({}, 6)) == []
