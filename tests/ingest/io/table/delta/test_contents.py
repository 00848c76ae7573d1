"""What the log says is in a table."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pa_fs
from deltalake import DeltaTable
from tests.support.tables.delta_rows import TOPIC, decided, written

from fairlead_ingest.io.table import delta, tables
from fairlead_ingest.table.commit import Append


def test_the_highest_id_of_a_topic_is_known_without_reading_rows(table: Path, tmp_path: Path) -> None:
    """Also where the positions say less, after a RESTORE and a backfill, and after files were joined."""
    assert delta.highest_ids(tmp_path / "none") == delta.highest_ids(table) == {}
    delta.append(table, written(table, "01", "03"), decided(table, 0, "03"))
    delta.append(table, written(table, "02", "04"), Append())
    assert delta.highest_ids(table) == {TOPIC: "04"}
    DeltaTable(str(table)).optimize.compact()
    assert delta.highest_ids(table) == {TOPIC: "04"}
    DeltaTable(str(table)).restore(1)
    assert delta.highest_ids(table) == {TOPIC: "03"}


def test_files_of_a_folder_are_read_without_python(tmp_path: Path) -> None:
    """A thread that closes a file of Python's while the interpreter ends aborts the process: exit code 134."""
    table = tmp_path / "odd name=%" / "rows"
    schema = pa.schema([("_id", pa.string()), ("_topic", pa.string()), ("_date", pa.date32())])
    delta.ensure(table, schema)
    writing = delta.writing(table)
    writing.add(pa.table([["1"], ["a/b %"], [datetime.date(2026, 11, 20)]], schema=schema))
    delta.append(table, writing.close(), tables.UNNUMBERED)
    rows = delta.dataset(table)
    assert isinstance(rows, ds.FileSystemDataset)
    assert isinstance(rows.filesystem, pa_fs.SubTreeFileSystem)
    assert isinstance(rows.filesystem.base_fs, pa_fs.LocalFileSystem)
    assert rows.to_table()["_topic"].to_pylist() == ["a/b %"]
