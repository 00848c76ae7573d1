"""Entries of a log, one by one."""

from __future__ import annotations

import shutil
from pathlib import Path

from deltalake import DeltaTable
from tests.support.tables.latest_rows import Row, append

from fairlead_ingest.io.latest import row_files


def test_entries_are_read_from_the_newest_back_to_where_the_log_was_cut(tmp_path: Path) -> None:
    """An entry of the same number with other rows has another stamp."""
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
