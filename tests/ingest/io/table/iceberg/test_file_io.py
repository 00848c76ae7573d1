"""Files of tables: durable when closed, read once, and not there where writing failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_ingest import errors
from fairlead_ingest.io.table.iceberg import file_io
from fairlead_ingest.io.table.iceberg.file_io import TableFiles
from fairlead_ingest.table.store_path import FROM_ENVIRONMENT, StorePath


def test_what_is_written_is_there_when_its_stream_is_closed(tmp_path):
    output = TableFiles().new_output(f"file://{tmp_path}/metadata/a.json")
    with output.create() as stream:
        stream.write(b"abc")
        assert not (tmp_path / "metadata" / "a.json").exists()
    assert ((tmp_path / "metadata" / "a.json").read_bytes(), len(output)) == (b"abc", 3)
    with output.to_input_file().open() as read:
        assert read.read() == b"abc"


def test_what_failed_in_the_middle_is_not_there(tmp_path):
    with pytest.raises(RuntimeError), TableFiles().new_output(f"{tmp_path}/a.avro").create() as stream:
        stream.write(b"half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_metadata_is_read_once_and_rows_are_not_kept(tmp_path):
    files = TableFiles()
    for name, kept in (("m.avro", True), ("part.parquet", False)):
        path = tmp_path / name
        path.write_bytes(b"1")
        assert files.new_input(str(path)).open().read() == b"1"
        path.unlink()
        assert files.new_input(str(path)).exists() is kept
        files.delete(str(path))
        assert files.new_input(str(path)).exists() is False


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(file_io, "KEPT_BYTES_MAX", 10)
    kept = file_io._SmallFiles()
    for name in ("a.json", "b.json"):
        kept.put(name, b"12345")
    assert kept.get("a.json") == b"12345"
    kept.put("c.json", b"1")
    assert (kept.get("b.json"), kept.get("a.json"), kept.get("c.json")) == (None, b"12345", b"1")
    kept.put("d.json", b"x" * 11)
    assert kept.get("d.json") is None


def test_places_as_engines_write_them():
    for location in ("/a/b", "file:/a/b", "file:///a/b"):
        assert file_io.place_of(location, FROM_ENVIRONMENT) == Path("/a/b")
    for location in ("s3://bucket/k", "s3a://bucket/k"):
        assert file_io.place_of(location, FROM_ENVIRONMENT) == StorePath("bucket", "k")
    with pytest.raises(ValueError, match="only s3://"):
        file_io.place_of("gs://bucket/k", FROM_ENVIRONMENT)


def test_places_that_engines_write_differently_are_one():
    """Spark's `file:/` beside our `file:///`: rows would not be found, and files be taken for orphans."""
    assert file_io.plain("file:/a/b") == file_io.plain("file:///a/b/") == file_io.plain("/a/b")
    assert file_io.plain("s3a://b/k") == file_io.plain("s3://b/k/") == "s3://b/k"
    assert file_io.relative(Path("/a/b"), "file:/a/b/data/_topic=a/1.parquet") == "data/_topic=a/1.parquet"
    assert file_io.relative(StorePath("bucket", "k"), "s3a://bucket/k/1.parquet") == "1.parquet"
    with pytest.raises(errors.Stop, match="outside the table"):
        file_io.relative(Path("/a/b"), "file:///a/bc/1.parquet")
