"""Reading rows from data files, the files of a bucket, and single entries of a Delta log."""

from __future__ import annotations

import datetime
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from tests.support.tables.latest_rows import Row, append

from fairlead_ingest.io.latest import row_files
from fairlead_ingest.io.latest.row_files import FileGone, RowFiles
from fairlead_ingest.latest.definition import BUCKET
from fairlead_ingest.latest.mark import RowFile

SCHEMA = pa.schema(
    [("a.b", pa.string()), ("new", pa.int64()), ("_topic", pa.string()), ("_date", pa.date32()), ("n", pa.int64())]
)


def test_columns_come_in_the_types_of_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr(row_files, "BATCH_ROWS", 2)
    pq.write_table(pa.table({"n": pa.array([1, 2, 3], pa.int32()), "a.b": ["x", None, "z"]}), tmp_path / "f")
    file = RowFile(path="f", partition=(("_date", "2026-11-20"), ("_topic", "ns/ä=%")))
    found = list(RowFiles(tmp_path, [file], SCHEMA).portions(0, SCHEMA.names))
    assert [(each.file, each.first, each.rows.num_rows) for each in found] == [(0, 0, 2), (0, 2, 1)]
    assert all(each.rows.schema == SCHEMA for each in found)
    assert found[1].rows.to_pylist() == [
        {"a.b": "z", "new": None, "_topic": "ns/ä=%", "_date": datetime.date(2026, 11, 20), "n": 3}
    ]
    only = list(RowFiles(tmp_path, [file], SCHEMA).portions(0, ["_topic", "new"]))
    assert sum(each.rows.num_rows for each in only) == 3


def test_large_rows_come_in_small_portions(tmp_path, monkeypatch):
    monkeypatch.setattr(row_files, "BATCH_BYTES", 10_000)
    pq.write_table(pa.table({"n": range(20), "a.b": [f"{number}" * 1000 for number in range(20)]}), tmp_path / "f")
    rows = RowFiles(tmp_path, [RowFile(path="f", partition=(("_topic", "t"), ("_date", "2026-11-20")))], SCHEMA)
    wide = [each.rows.num_rows for each in rows.portions(0, ["a.b", "n"])]
    assert sum(wide) == 20
    assert max(wide) < 10
    assert len(list(rows.portions(0, ["n"]))) == 1
    assert rows.mean_bytes > 1000


def test_a_file_that_is_not_there_is_gone(tmp_path):
    with pytest.raises(FileGone):
        list(RowFiles(tmp_path, [RowFile(path="f", partition=())], SCHEMA).portions(0, ["n"]))


SCHEMA_BUCKET_FILES = pa.schema([("k", pa.string()), ("new", pa.int64()), (BUCKET, pa.int32())])


def test_what_was_written_is_read_with_its_bucket_and_later_columns(tmp_path):
    written = pa.table({"k": ["a", None], BUCKET: pa.array([3, 3], pa.int32())})
    files = [row_files.write(tmp_path, 3, written), row_files.write(tmp_path, 4, written.slice(0, 1))]
    assert [(each.bucket, each.rows, each.size) for each in files] == [
        (3, 2, (tmp_path / files[0].path).stat().st_size),
        (4, 1, (tmp_path / files[1].path).stat().st_size),
    ]
    assert row_files.read(tmp_path, files, SCHEMA_BUCKET_FILES).to_pylist() == [
        {"k": "a", "new": None, BUCKET: 3},
        {"k": None, "new": None, BUCKET: 3},
        {"k": "a", "new": None, BUCKET: 4},
    ]
    assert row_files.read(tmp_path, [], SCHEMA_BUCKET_FILES) == SCHEMA_BUCKET_FILES.empty_table()


def test_entries_are_read_from_the_newest_back_to_where_the_log_was_cut(tmp_path):
    rows, other = tmp_path / "rows", tmp_path / "other"
    append(rows, [Row(number=1)])
    shutil.copytree(rows, other)
    append(rows, [Row(number=2)])
    append(other, [Row(number=3)])
    assert row_files.stamp(rows, 1) == row_files.stamp(other, 1) != row_files.stamp(rows, 2)
    assert row_files.stamp(rows, 2) != row_files.stamp(other, 2)
    assert row_files.stamp(rows, 3) is None
    operations = [each.info["operation"] for each in row_files.backwards(rows, DeltaTable(str(rows)).version())]
    assert operations == ["WRITE", "WRITE", "CREATE TABLE"]
    (rows / "_delta_log" / f"{0:020d}.json").unlink()
    assert len(list(row_files.backwards(rows, 2))) == 2
    assert row_files.entry(rows, 0) is None
