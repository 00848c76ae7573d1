from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_ingest.table import store_path
from fairlead_ingest.table.store_path import Storage, StorePath

STORAGE = Storage(endpoint_url="https://store.example.com")


def test_a_place_in_a_store_is_used_like_a_folder() -> None:
    place = store_path.parse("s3://bucket/plant/rows/", STORAGE)
    assert place == StorePath("bucket", "plant/rows")
    assert str(place / "_delta_log") == "s3://bucket/plant/rows/_delta_log"
    assert str(place.with_name(place.name + "_gaps")) == "s3://bucket/plant/rows_gaps"
    assert (place / "a" / "b").storage is place.with_name("x").storage is STORAGE
    assert str(store_path.parse("s3://bucket/rows").with_name("gaps")) == "s3://bucket/gaps"


def test_a_folder_stays_a_folder() -> None:
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
def test_what_is_no_place_is_refused_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as refused:
        store_path.parse(text)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("scheme", ["s3", "s3a", "gs", "ftp"])
def test_a_key_in_a_place_is_not_quoted(scheme: str) -> None:
    with pytest.raises(ValueError, match="is '") as refused:
        store_path.parse(f"{scheme}://key:hidden@bucket/rows")
    assert "hidden" not in str(refused.value)


@given(st.text(max_size=60))
def test_any_path_is_a_place_or_refused(text: str) -> None:
    try:
        place = store_path.parse(f"s3://bucket/{text}")
    except ValueError:
        return
    assert store_path.parse(str(place)) == place
