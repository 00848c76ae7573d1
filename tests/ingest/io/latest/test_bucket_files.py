"""Files of a bucket."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from fairlead_ingest.io.latest import row_files
from fairlead_ingest.latest.definition import BUCKET

SCHEMA = pa.schema([("k", pa.string()), ("new", pa.int64()), (BUCKET, pa.int32())])


def test_what_was_written_is_read_with_its_bucket_and_later_columns(tmp_path: Path) -> None:
    """Which are null."""
    written = pa.table({"k": ["a", None], BUCKET: pa.array([3, 3], pa.int32())})
    files = [row_files.write(tmp_path, 3, written), row_files.write(tmp_path, 4, written.slice(0, 1))]
    assert [(each.bucket, each.rows, each.size) for each in files] == [
        (3, 2, (tmp_path / files[0].path).stat().st_size),
        (4, 1, (tmp_path / files[1].path).stat().st_size),
    ]
    assert row_files.read(tmp_path, files, SCHEMA).to_pylist() == [
        {"k": "a", "new": None, BUCKET: 3},
        {"k": None, "new": None, BUCKET: 3},
        {"k": "a", "new": None, BUCKET: 4},
    ]
    assert row_files.read(tmp_path, [], SCHEMA) == SCHEMA.empty_table()
