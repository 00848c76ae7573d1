"""Files of one task."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairlead_ingest.io.table import files
from fairlead_ingest.io.table.files import PartitionedFiles

MOMENT = datetime.datetime(2026, 11, 20, 12, 0, 0, 123_456, tzinfo=datetime.UTC)


def rows(*numbers: int, topic: str = "a/t", day: int = 20) -> pa.Table:
    count = len(numbers)
    return pa.table(
        {
            "_id": [f"{number:02x}" for number in numbers],
            "_published_at": pa.array([MOMENT] * count, pa.timestamp("us", tz="UTC")),
            "_topic": [topic] * count,
            "_date": pa.array([datetime.date(2026, 11, day)] * count, pa.date32()),
        }
    )


def test_rows_go_to_one_file_for_each_topic_and_day(tmp_path):
    writing = PartitionedFiles(tmp_path)
    writing.add(pa.concat_tables([rows(1, 2), rows(3, day=21), rows(4, topic="a/odd name=%")]))
    writing.add(rows(5))
    written = {(file.topic, file.date): file for file in writing.close()}
    assert {key: file.rows for key, file in written.items()} == {
        ("a/t", "2026-11-20"): 3,
        ("a/t", "2026-11-21"): 1,
        ("a/odd name=%", "2026-11-20"): 1,
    }
    first = written["a/t", "2026-11-20"]
    assert first.path.startswith("_topic=a%2Ft/_date=2026-11-20/")
    with pq.ParquetFile(tmp_path / first.path) as file:
        assert file.read().column_names == ["_id", "_published_at"]
    assert (tmp_path / first.path).stat().st_size == first.size


def test_bounds_still_bound_when_cut_to_milliseconds(tmp_path):
    writing = PartitionedFiles(tmp_path)
    writing.add(rows(7, 9))
    (written,) = writing.close()
    assert (written.minimum["_id"], written.maximum["_id"]) == ("07", "09")
    assert written.minimum["_published_at"] == "2026-11-20T12:00:00.123Z"
    assert written.maximum["_published_at"] == "2026-11-20T12:00:00.124Z"


def test_a_task_without_rows_leaves_no_file(tmp_path):
    assert PartitionedFiles(tmp_path).close() == []
    assert list(tmp_path.iterdir()) == []


def test_large_tasks_write_in_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "GROUP_BYTES", 1)
    writing = PartitionedFiles(tmp_path)
    for number in range(3):
        writing.add(rows(number))
    (written,) = writing.close()
    with pq.ParquetFile(tmp_path / written.path) as file:
        assert file.num_row_groups == 3


def test_topics_that_take_turns_keep_their_order(tmp_path):
    """Each row in the file of its topic, in the order in which it came, however many topics there are."""
    writing = PartitionedFiles(tmp_path)
    writing.add(pa.concat_tables([rows(number, topic=f"a/{number % 30}") for number in range(90)]))
    written = {file.topic: file for file in writing.close()}
    assert len(written) == 30
    for number in range(30):
        with pq.ParquetFile(tmp_path / written[f"a/{number}"].path) as file:
            found = file.read()["_id"].to_pylist()
        assert found == [f"{each:02x}" for each in (number, number + 30, number + 60)]


def test_every_file_is_on_disk_before_any_is_named(tmp_path, monkeypatch):
    synced: list[Path] = []
    real = files.sync

    def noted(path: Path) -> int:
        synced.append(path)
        return real(path)

    monkeypatch.setattr(files, "sync", noted)
    writing = PartitionedFiles(tmp_path)
    writing.add(pa.concat_tables([rows(number, topic=f"a/{number}") for number in range(20)]))
    written = writing.close()
    assert sorted(synced) == sorted(tmp_path / file.path for file in written) and len(written) == 20

    def full(path: Path) -> int:
        if "a%2F13" in str(path):
            raise OSError(28, "No space left on device")
        return real(path)

    monkeypatch.setattr(files, "sync", full)
    writing = PartitionedFiles(tmp_path)
    writing.add(pa.concat_tables([rows(number, topic=f"a/{number}") for number in range(20)]))
    with pytest.raises(OSError, match="No space left"):
        writing.close()


def test_folders_are_synced_side_by_side(tmp_path):
    files.sync_all([tmp_path, tmp_path])
    with pytest.raises(FileNotFoundError):
        files.sync_all([tmp_path, tmp_path / "none"])
