"""Small files into large ones, beside what is committed meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from tests.support.tables.iceberg_table import TOPIC, IcebergTable

from fairlead_ingest import errors
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.iceberg import compaction
from fairlead_ingest.io.table.iceberg.versions import NewVersion

TARGET = 1024 * 1024


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    made = IcebergTable(tmp_path)
    files = [file for number in range(5) for file in made.written(number)]
    made.format.append(made.place, files, tables.UNNUMBERED)
    made.commit(5, 5)
    return made


@pytest.mark.slow
def test_files_become_one_and_rows_positions_and_versions_stay(table):
    before = table.format.size(table.place)
    old = table.opened().current_snapshot()
    assert before is not None and old is not None
    done = compaction.of(table.format, table.place).compact(target_bytes=TARGET)
    assert (done["partitions"], done["files_removed"], done["files_added"]) == (1, 6, 1)
    after = table.format.size(table.place)
    assert after is not None and (after.rows, after.files, before.files) == (6, 1, 6)
    assert table.numbers() == [0, 1, 2, 3, 4, 5]
    assert table.opened().scan(snapshot_id=old.snapshot_id).to_arrow().num_rows == 6, "readers of the old version go on"
    assert table.format.state(table.place, "app").batch == 5
    assert table.commit(6, 6) is True
    again = compaction.of(table.format, table.place).compact(target_bytes=TARGET)
    assert again["files_removed"] == 2
    assert compaction.of(table.format, table.place).compact(target_bytes=TARGET)["files_removed"] == 0


def test_rows_are_sorted_where_that_is_asked(table):
    compaction.of(table.format, table.place).compact(target_bytes=TARGET, sort_by=["node"])
    nodes = tables.existing(table.format, table.place).to_table()["node"].to_pylist()
    assert nodes == sorted(nodes)
    assert table.numbers() == [0, 1, 2, 3, 4, 5]


def test_an_append_in_between_is_not_lost(table, monkeypatch):
    """The catalog refuses the first try, the second is made on top of what came in between."""
    commit_table, batches = SqlCatalog.commit_table, iter([6, 7])

    def with_another_first(self: SqlCatalog, *arguments: Any) -> Any:
        batch = next(batches, None)
        if batch is not None:
            with monkeypatch.context() as once:
                once.setattr(SqlCatalog, "commit_table", commit_table)
                IcebergTable(table.folder).commit(batch, batch)
        return commit_table(self, *arguments)

    monkeypatch.setattr(SqlCatalog, "commit_table", with_another_first)
    done = compaction.of(table.format, table.place).compact(target_bytes=TARGET)
    assert done["files_removed"] == 6
    assert table.numbers() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_a_compaction_whose_answer_was_lost_is_done_once(table, monkeypatch):
    commit_table, losses = SqlCatalog.commit_table, iter([True])

    def lose(self: SqlCatalog, *arguments: Any) -> Any:
        answer = commit_table(self, *arguments)
        if next(losses, False):
            raise OSError("connection reset")
        return answer

    monkeypatch.setattr(SqlCatalog, "commit_table", lose)
    done = compaction.of(table.format, table.place).compact(target_bytes=TARGET)
    assert (done["files_removed"], done["files_added"]) == (6, 1)
    assert table.numbers() == [0, 1, 2, 3, 4, 5]


def test_what_others_have_replaced_meanwhile_is_left_to_them(table, monkeypatch):
    commit = NewVersion.commit

    def second(self: NewVersion, *arguments: Any) -> None:
        monkeypatch.setattr(NewVersion, "commit", commit)
        compaction.of(IcebergTable(table.folder).format, table.place).compact(target_bytes=TARGET)
        commit(self, *arguments)

    monkeypatch.setattr(NewVersion, "commit", second)
    done = compaction.of(table.format, table.place).compact(target_bytes=TARGET)
    assert done["files_removed"] == 0
    assert table.numbers() == [0, 1, 2, 3, 4, 5]


def test_a_table_that_is_not_there_is_said(table):
    with pytest.raises(errors.Stop, match="there is no table here"):
        compaction.of(table.format, table.folder / "none")


def test_a_partition_of_one_file_is_left_alone(tmp_path):
    made = IcebergTable(tmp_path)
    made.format.append(made.place, made.written(1, topic=TOPIC), tables.UNNUMBERED)
    made.format.append(made.place, made.written(2, topic="b/t"), tables.UNNUMBERED)
    done = compaction.of(made.format, made.place).compact(target_bytes=TARGET)
    assert (done["partitions"], done["files_removed"]) == (2, 0)
