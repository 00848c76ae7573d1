"""Spark's checkpoint folder, read as Spark writes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead_ingest import errors
from fairlead_ingest.io.checkpoint import spark_checkpoint
from fairlead_ingest.source.offsets import Offsets, TopicOffset


def written(folder: Path, batch: int, end: Offsets) -> None:
    (folder / "offsets").mkdir(parents=True, exist_ok=True)
    (folder / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(end.to_dict())}")


def test_the_end_of_a_batch_is_where_spark_planned_it(tmp_path):
    for batch in (9, 10):
        written(tmp_path, batch, Offsets(service="s", topics={"a/t": TopicOffset.at(1, f"{batch:02x}")}))
    assert spark_checkpoint.end_of(tmp_path, 9).topics["a/t"].position == "09"
    assert (spark_checkpoint.has(tmp_path, 10), spark_checkpoint.has(tmp_path, 11)) == (True, False)


def test_a_checkpoint_is_fresh_until_a_batch_is_planned(tmp_path):
    assert spark_checkpoint.is_fresh(tmp_path / "none")
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / ".0.crc").touch()
    assert spark_checkpoint.is_fresh(tmp_path)
    written(tmp_path, 0, Offsets())
    assert not spark_checkpoint.is_fresh(tmp_path)


def test_the_query_is_known_by_its_identity(tmp_path):
    (tmp_path / "metadata").write_text('{"id":"4a0c9f9e"}')
    assert spark_checkpoint.query_id(tmp_path) == "4a0c9f9e"


@pytest.mark.parametrize("text", [None, "", "{}", "not json"])
def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path, text):
    if text is not None:
        (tmp_path / "metadata").write_text(text)
    with pytest.raises(errors.Stop, match=f"{errors.BAD_CHECKPOINT}: {tmp_path}"):
        spark_checkpoint.query_id(tmp_path)


def test_behind_another_source_there_are_no_places(tmp_path):
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"logOffset":0}')
    assert spark_checkpoint.end_of(tmp_path, 0) == Offsets()


@pytest.mark.parametrize("text", [None, "v1\n{}", "v1\n{}\nno json", 'v1\n{}\n{"svc": 1}'])
def test_a_batch_without_a_readable_end_is_refused(tmp_path, text):
    (tmp_path / "offsets").mkdir()
    if text is not None:
        (tmp_path / "offsets" / "3").write_text(text)
    with pytest.raises(errors.Stop, match=errors.BAD_CHECKPOINT):
        spark_checkpoint.end_of(tmp_path, 3)


def test_a_batch_that_another_job_left_behind_is_a_shared_checkpoint(tmp_path):
    """Spark keeps the newest ends; another job went on while this one was at work. Waiting heals it."""
    (tmp_path / "offsets").mkdir()
    for batch in (40, 41):
        (tmp_path / "offsets" / str(batch)).write_text('v1\n{}\n{"logOffset":0}')
    with pytest.raises(errors.Wait, match=f"{errors.CHECKPOINT_TAKEN}: .*past batch 31"):
        spark_checkpoint.end_of(tmp_path, 31)


def test_what_spark_knows_to_be_in_the_table_and_where_all_began(tmp_path):
    assert spark_checkpoint.last_committed(tmp_path) is None
    assert spark_checkpoint.begun(tmp_path) == Offsets()
    for batch, (begin, end) in {3: ("0a", "0c"), 4: ("0c", "0f")}.items():
        place = TopicOffset(generation=1, position=end, start_generation=1, start_position=begin, rows=1)
        written(tmp_path, batch, Offsets(service="s", topics={"a/t": place}))
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "3").touch()
    assert spark_checkpoint.last_committed(tmp_path) == 3
    assert spark_checkpoint.begun(tmp_path).topics["a/t"].position == "0a"
