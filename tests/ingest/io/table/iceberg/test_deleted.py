"""Rows that another engine has marked as deleted: seen by no reader, and never all of the table in memory for it."""

from __future__ import annotations

import io
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFileContent
from tests.support.tables.iceberg_table import IcebergTable
from tests.support.tables.marked_deleted import mark_deleted

from fairlead_ingest import errors
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.iceberg import compaction, deleted


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    """Rows 0 to 9 in one file, 10 to 19 in another, 20 in a third."""
    made = IcebergTable(tmp_path)
    made.commit(0, *range(10))
    made.commit(1, *range(10, 20))
    made.commit(2, 20)
    return made


def locations(table: IcebergTable) -> list[str]:
    return [f"file://{table.place}/{path}" for path, _ in table.format.files(table.place)]


@pytest.mark.slow
def test_what_is_left_is_what_every_other_reader_sees(table):
    """By conditions, columns, counts and SQL, also after more commits and more marks on the same file."""
    first, second, _ = locations(table)
    mark_deleted(table.opened(), {first: [0, 3, 9], second: range(10)})
    mark_deleted(table.opened(), {first: [3, 4]})
    left = [1, 2, 5, 6, 7, 8, 20]
    assert table.numbers() == left
    assert sorted(int(each) for each in table.opened().scan().to_arrow()["_id"].to_pylist()) == left
    assert pl.scan_iceberg(table.opened()).collect().height == len(left)
    rows = tables.existing(table.format, table.place)
    assert rows.count_rows() == duckdb.execute("select count(*) from rows").fetchall()[0][0] == len(left)
    assert rows.to_table(filter=ds.field("_id") >= "0008", columns=["node"]).num_rows == 2
    assert rows.schema.names == table.opened().schema().column_names
    assert table.commit(3, 21) is True
    assert table.numbers() == [*left, 21]


@pytest.mark.slow
def test_rows_are_copied_a_few_at_a_time_and_nothing_is_left_behind(table, tmp_path, monkeypatch):
    """Also where many look at once: no thread of Arrow's waits for another."""
    monkeypatch.setattr(deleted, "ROWS_AT_ONCE", 3)
    spool = tmp_path / "spool"
    spool.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spool))
    mark_deleted(table.opened(), {each: [0] for each in locations(table)})
    left = [*range(1, 10), *range(11, 20)]
    with ThreadPoolExecutor(16) as pool:
        assert all(found == left for found in pool.map(lambda _: table.numbers(), range(32)))
    assert list(spool.iterdir()) == []


def test_a_copy_is_made_of_a_few_rows_at_a_time(tmp_path):
    rows = pa.table({"n": range(3 * deleted.ROWS_AT_ONCE + 1)})
    pq.write_table(rows, tmp_path / "whole.parquet")
    gone = np.arange(0, rows.num_rows, 2)
    with pa.OSFile(str(tmp_path / "whole.parquet")) as source, deleted._copied_without(source, gone) as copy:
        found = pq.ParquetFile(copy)
        groups = [found.metadata.row_group(number).num_rows for number in range(found.num_row_groups)]
        assert max(groups) <= deleted.ROWS_AT_ONCE and sum(groups) == rows.num_rows // 2
        assert found.read()["n"].to_pylist() == list(range(1, rows.num_rows, 2))


def test_a_file_is_read_in_pieces_though_its_rows_are_one_group(tmp_path):
    """Or memory would follow the size of other engines' files."""
    numbers = np.random.default_rng(7).random(500_000)
    pq.write_table(pa.table({"n": numbers}), tmp_path / "whole.parquet", row_group_size=len(numbers))
    sizes: list[int] = []

    class Reading(io.FileIO):
        def read(self, size: int | None = -1) -> bytes:
            found = super().read(size)
            sizes.append(len(found))
            return found

    with Reading(str(tmp_path / "whole.parquet")) as file, pa.PythonFile(file, mode="r") as source:
        deleted._copied_without(source, np.arange(0, len(numbers), 2)).close()
    assert sum(sizes) > numbers.nbytes * 0.9 and max(sizes) < numbers.nbytes / 2


def test_what_is_looked_at_without_rows_opens_no_file(table, monkeypatch):
    mark_deleted(table.opened(), {locations(table)[0]: [0]})
    monkeypatch.setattr(deleted, "_copied_without", None)
    assert "_id" in tables.existing(table.format, table.place).schema.names
    assert tables.existing(table.format, table.place).to_table(filter=ds.field("_id") == "0020").num_rows == 1


def test_marks_by_value_are_refused_when_rows_are_asked_for_and_appends_go_on(table):
    mark_deleted(table.opened(), {locations(table)[0]: [0]}, DataFileContent.EQUALITY_DELETES)
    assert table.commit(3, 21) is True
    with pytest.raises(
        errors.Stop, match=rf"{errors.TABLE_UNFIT}: .*by value \(equality deletes\).*rewrite_data_files"
    ):
        table.numbers()


def test_a_compaction_leaves_it_to_the_engine_that_marked(table):
    mark_deleted(table.opened(), {locations(table)[0]: [0]})
    with pytest.raises(errors.Stop, match="compact it with that engine"):
        compaction.of(table.format, table.place)
