from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_ingest.table import store_path
from fairlead_ingest.table.store_path import Storage, StorePath

STORAGE = Storage(endpoint_url="https://store.example.com")


def test_a_place_in_a_store_is_used_like_a_folder():
    place = store_path.parse("s3://bucket/plant/rows/", STORAGE)
    assert place == StorePath("bucket", "plant/rows")
    assert str(place / "_delta_log") == "s3://bucket/plant/rows/_delta_log"
    assert str(place.with_name(place.name + "_gaps")) == "s3://bucket/plant/rows_gaps"
    assert (place / "a" / "b").storage is place.with_name("x").storage is STORAGE
    assert str(store_path.parse("s3://bucket/rows").with_name("gaps")) == "s3://bucket/gaps"


def test_a_folder_stays_a_folder():
    assert store_path.place("/data/rows", STORAGE) == Path("/data/rows")
    assert isinstance(store_path.place("s3://bucket/rows", STORAGE), StorePath)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("gs://bucket/rows", "only s3://"), ("s3:/bucket/rows", "only s3://"),
        ("s3://", "must name a bucket"), ("s3://a/rows", "must name a bucket"),
        ("s3://Bucket/rows", "must name a bucket"), ("s3://bucket", "must name a path"),
        ("s3://bucket/", "must name a path"), ("s3://bucket//rows", "must name a path"),
        ("s3://bucket/../rows", "must name a path"), ("s3://bucket/a?b", "must name a path"),
        ("s3://bucket/" + "a" * 701, "must name a path"), ("s3://key:secret@bucket/rows", "must name a bucket"),
    ],
)  # fmt: skip
def test_what_is_no_place_is_refused_in_a_sentence(text, sentence):
    with pytest.raises(ValueError, match=sentence) as refused:
        store_path.parse(text)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("scheme", ["s3", "s3a", "gs", "ftp"])
def test_a_key_in_a_place_is_not_quoted(scheme):
    with pytest.raises(ValueError, match="is '") as refused:
        store_path.parse(f"{scheme}://key:hidden@bucket/rows")
    assert "hidden" not in str(refused.value)


@given(st.text(max_size=60))
def test_any_path_is_a_place_or_refused(text):
    try:
        place = store_path.parse(f"s3://bucket/{text}")
    except ValueError:
        return
    assert store_path.parse(str(place)) == place


@pytest.mark.parametrize(
    ("pipelines", "reason"),
    [
        ([("p", "/d/t", "/d/t")], "checkpoint: /d/t would be the rows of p and the checkpoint of p"),
        ([("p", "/d/t", "/d/x/../t/")], "checkpoint: /d/t would be"),
        ([("p", "/d/t", "/d/t_dead_letters")], "checkpoint: .*dead letters of p"),
        ([("p", "/d/t/", "/d/t_gaps")], "checkpoint: .*gaps of p"),
        ([("p", "/d/t", "/d/t/checkpoint")], "checkpoint: .*is inside the rows of p; move it outside"),
        ([("p", "/d/c/t", "/d/c")], "checkpoint: .*the rows of p, is inside the checkpoint of p"),
        ([("p", "/d/t", "/d/c"), ("q", "/d/t_gaps", "/d/e")], "table: /d/t_gaps would be"),
        ([("p", "s3://b/t", "/d/c"), ("q", "s3://b/t/", "/d/e")], "table: s3://b/t would be"),
        ([("p", "/d/t", "/d/c"), ("q", "/d/u", "/d/c")], "checkpoint: /d/c would be the checkpoint of p and"),
        ([("p", "/d/t", "/d/c"), ("q", "/d/t/u", "/d/e")], "table: .*the rows of q, is inside the rows of p"),
    ],
)
def test_one_folder_is_not_two_things(pipelines, reason):
    with pytest.raises(ValueError, match=reason):
        store_path.check(pipelines)


def test_neighbours_and_hidden_folders_are_all_right():
    """Names that only begin alike; a checkpoint where Spark's users often put it."""
    store_path.check([("p", "/d/t", "/d/t-checkpoint"), ("q", "/d/t2", "/d/t2/_checkpoint"), ("r", "t", "c")])
