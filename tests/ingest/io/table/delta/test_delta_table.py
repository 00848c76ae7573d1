"""Opening, reading and vacuuming Delta tables."""

from __future__ import annotations

import datetime
import os
import time

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pa_fs
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.support.tables.delta_rows import TOPIC, decided, written
from tests.support.tables.table_formats import append_rows

from fairlead_ingest import errors
from fairlead_ingest.io.table import delta
from fairlead_ingest.io.table.delta import delta_table
from fairlead_ingest.table.commit import Append
from fairlead_ingest.table.store_path import parse


def test_the_highest_id_of_a_topic_is_known_without_reading_rows(table, tmp_path):
    """Also where the positions say less, after a RESTORE and a backfill, and after files were joined."""
    assert delta.highest_ids(tmp_path / "none") == delta.highest_ids(table) == {}
    delta.append(table, written(table, "01", "03"), decided(table, 0, "03"))
    delta.append(table, written(table, "02", "04"), Append())
    assert delta.highest_ids(table) == {TOPIC: "04"}
    DeltaTable(str(table)).optimize.compact()
    assert delta.highest_ids(table) == {TOPIC: "04"}
    DeltaTable(str(table)).restore(1)
    assert delta.highest_ids(table) == {TOPIC: "03"}


def test_files_of_a_folder_are_read_without_python(tmp_path):
    """A thread that closes a file of Python's while the interpreter ends aborts the process: exit code 134."""
    table = tmp_path / "odd name=%" / "rows"
    schema = pa.schema([("_id", pa.string()), ("_topic", pa.string()), ("_date", pa.date32())])
    delta.ensure(table, schema)
    append_rows(delta, table, pa.table([["1"], ["a/b %"], [datetime.date(2026, 11, 20)]], schema=schema))
    rows = delta.dataset(table)
    assert isinstance(rows, ds.FileSystemDataset)
    assert isinstance(rows.filesystem, pa_fs.SubTreeFileSystem)
    assert isinstance(rows.filesystem.base_fs, pa_fs.LocalFileSystem)
    assert rows.to_table()["_topic"].to_pylist() == ["a/b %"]


def test_the_table_of_another_program_is_left_alone(tmp_path):
    write_deltalake(str(tmp_path / "rows"), pa.table({"_id": ["1"], "_topic": ["t"]}))
    with pytest.raises(errors.Stop, match=errors.TABLE_UNFIT):
        delta.ensure(tmp_path / "rows", pa.schema([("_id", pa.string())]))


def test_a_folder_is_looked_at_anew(table, tmp_path):
    before = delta_table.open_table(table)
    assert before is not None
    delta.append(table, written(table, "01"), decided(table, 0, "01"))
    after = delta_table.open_table(table)
    assert after is not None
    assert (before.version(), after.version()) == (0, 1)
    assert delta_table.open_table(tmp_path / "none") is None
    with pytest.raises(errors.Stop, match=r"FAIRLEAD_TABLE_UNFIT: .*no table"):
        delta_table.when_decided(tmp_path / "none")


def test_what_a_store_answers_is_a_sentence_of_ours_and_a_folders_error_its_own(tmp_path):
    with pytest.raises(OSError, match=r"^full$"), delta_table.explained(tmp_path):
        raise OSError("full")
    answered = pytest.raises(errors.Wait, match=r"FAIRLEAD_STORE_AWAY: s3://tables/rows .*SlowDown")
    with answered, delta_table.explained(parse("s3://tables/rows")):
        raise OSError("<Code>SlowDown</Code>")


def test_the_files_of_a_killed_task_go_when_they_are_old_and_no_other(table, tmp_path):
    delta.append(table, written(table, "01"), decided(table, 0, "01"))
    (old,), (young,) = written(table, "02"), written(table, "03")
    os.utime(table / old.path, (time.time() - 7200,) * 2)
    assert delta.vacuum(table, retention_hours=1, dry_run=True) == [old.path] and (table / old.path).exists()
    assert delta.vacuum(table, retention_hours=1, dry_run=False) == [old.path]
    assert not (table / old.path).exists() and (table / young.path).exists()
    there = delta.size(table)
    assert there is not None and there.rows == 1
    assert delta.vacuum(tmp_path / "none", retention_hours=1, dry_run=False) == []


def test_a_table_of_another_program_is_told_from_one_of_ours(tmp_path):
    write_deltalake(str(tmp_path / "foreign"), pa.table({"_topic": pa.array([1]), "a": pa.array([1])}))
    schema = pa.schema([("_id", pa.string()), ("_topic", pa.string()), ("_date", pa.date32())])
    with pytest.raises(errors.Stop, match=r"foreign: a Delta table that this program did not create \(it is not part"):
        delta.ensure(tmp_path / "foreign", schema)
