"""Iceberg tables of ours beside what others do to them, and commits whose answer was lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from tests.support.tables.iceberg_table import NOW, SCHEMA, TOPIC, IcebergTable

from fairlead_ingest import errors
from fairlead_ingest.io.table import tables
from fairlead_ingest.io.table.iceberg.format import IcebergFormat
from fairlead_ingest.table.catalog import Catalog
from fairlead_ingest.table.commit import Collided


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    return IcebergTable(tmp_path)


def test_a_commit_whose_answer_was_lost_is_found_in_the_table(
    table: IcebergTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the library makes of it: it may stand, so the table is asked, and the batch is in it once."""
    commit_table = SqlCatalog.commit_table

    def lose(self: SqlCatalog, *arguments: Any) -> Any:
        commit_table(self, *arguments)
        raise OSError("connection reset")

    monkeypatch.setattr(SqlCatalog, "commit_table", lose)
    with pytest.raises(Collided) as lost:
        table.commit(0, 1)
    assert lost.value.unanswered is not None and lost.value.unanswered.code == errors.CATALOG_AWAY
    monkeypatch.undo()
    assert table.commit(0, 1) is False
    assert table.numbers() == [1]


def test_a_commit_that_never_arrived_is_made_again(table: IcebergTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise OSError("connection refused")

    monkeypatch.setattr(SqlCatalog, "commit_table", fail)
    with pytest.raises(Collided):
        table.commit(0, 1)
    monkeypatch.undo()
    assert table.commit(0, 1) is True
    assert table.numbers() == [1]


def test_a_table_that_others_rolled_back_is_known_by_its_rows(table: IcebergTable) -> None:
    """The property still speaks of three batches; the current version holds one."""
    for batch in range(3):
        table.commit(batch, batch + 1)
    others = table.opened()
    others.manage_snapshots().rollback_to_snapshot(others.snapshots()[0].snapshot_id).commit()
    state = table.format.state(table.place, "app")
    assert (state.reached.topics[TOPIC].position, state.is_cut) == ("0001", False)
    with pytest.raises(errors.Stop, match=errors.TABLE_BEHIND):
        from fairlead_ingest.source.offsets import Offsets, TopicOffset
        from fairlead_ingest.table import commit

        commit.check_goes_on(state, Offsets(service="s", topics={TOPIC: TopicOffset.at(1, "0003")}))
    # A new checkpoint goes on from the rows.
    assert table.commit(0, 2, application="new") is True
    assert table.numbers() == [1, 2]
    assert table.format.state(table.place, "new").reached.topics[TOPIC].position == "0002"


def test_commits_of_others_change_no_position(table: IcebergTable) -> None:
    """Another engine deletes a day or adds rows: what our newest commit left counts on."""
    table.commit(0, 1, 2)
    others = table.opened()
    others.append(pa.Table.from_pylist([{"_id": "0009", "_topic": "b/t"}], schema=others.schema().as_arrow()))
    state = table.format.state(table.place, "app")
    assert (state.batch, state.reached.topics[TOPIC].position) == (0, "0002")
    assert table.commit(1, 3) is True
    assert table.numbers() == [1, 2, 3, 9]
    others = table.opened()
    others.delete("_id = '0001'")
    assert table.numbers() == [2, 3, 9]
    assert table.commit(2, 4) is True
    assert table.format.reached(table.place).topics[TOPIC].position == "0004"


def test_versions_that_others_let_expire_leave_the_rows_to_say_how_far_the_table_goes(table: IcebergTable) -> None:
    """Our newest commit among them: its batch is known still, its positions may be of a line that is gone."""
    table.commit(0, 1)
    others = table.opened()
    others.append(pa.Table.from_pylist([{"_id": "0009", "_topic": "b/t"}], schema=others.schema().as_arrow()))
    others = table.opened()
    others.maintenance.expire_snapshots().by_id(others.snapshots()[0].snapshot_id).commit()
    state = table.format.state(table.place, "app")
    assert (state.batch, state.is_cut, state.reached.topics[TOPIC].position) == (0, True, "0001")
    assert table.commit(0, 1) is False, "a batch of that number is in it"


def test_positions_are_once_in_the_table_and_counts_in_each_summary(table: IcebergTable) -> None:
    """Else hundreds of topics would be in each of a hundred remembered versions, and all of it in each commit."""
    for batch in range(3):
        table.commit(batch, batch + 1)
    opened = table.opened()
    assert opened.properties["fairlead.newest"].count('"a/t"') == 1
    assert all(TOPIC not in str(each.summary["fairlead"]) for each in opened.snapshots() if each.summary)
    entries = table.format.last_entries(table.place, 10)
    assert [entry.version for entry in entries] == [3, 2, 1]
    assert [entry.info.batch for entry in entries if entry.info] == [2, 1, 0]
    assert entries[0].info is not None and entries[0].info.reached.topics[TOPIC].position == "0003"


def test_a_table_at_another_place_is_not_taken_for_ours(table: IcebergTable, tmp_path: Path) -> None:
    """Two jobs whose folders end alike, in one namespace."""
    with pytest.raises(errors.Stop, match="lies at file:"):
        table.format.ensure(tmp_path / "other" / "rows", SCHEMA)


def test_a_table_that_is_partitioned_otherwise_is_left_alone(table: IcebergTable, tmp_path: Path) -> None:
    """Made by hand, say."""
    catalog = SqlCatalog("fairlead", uri=table.catalog.uri)
    catalog.create_table(("fairlead", "plain"), SCHEMA, location=f"file://{tmp_path}/plain")
    with pytest.raises(errors.Stop, match="not partitioned by"):
        table.format.ensure(tmp_path / "plain", SCHEMA)


def test_without_a_catalog_it_says_what_is_missing(tmp_path: Path) -> None:
    """Tasks write without one."""
    bare = IcebergFormat(None)
    assert bare.writing(tmp_path / "rows").close() == []
    with pytest.raises(errors.Stop, match=r"catalog. uri: required"):
        bare.version(tmp_path / "rows")


def test_a_catalog_that_cannot_be_opened_is_said_in_a_sentence(tmp_path: Path) -> None:
    """Before anything is written."""
    away = tables.of("iceberg", Catalog(type="sql", uri=f"sqlite:///{tmp_path}/none/catalog.db"))
    with pytest.raises(errors.Stop, match=r"FAIRLEAD_CATALOG_UNFIT: .*unable to open database file"):
        away.version(tmp_path / "rows")


def test_others_find_every_column_by_its_name_also_after_it_grew(table: IcebergTable) -> None:
    """Files name columns and do not number them; the name mapping grows with the table."""
    table.commit(0, 1)
    table.format.ensure(table.place, pa.schema([*SCHEMA, ("at", pa.struct([("lat", pa.float64())]))]))
    writing = table.format.writing(table.place)
    row = {"_id": "0002", "_topic": TOPIC, "_date": None, "at": {"lat": 1.5}}
    schema = pa.schema([*SCHEMA, ("at", pa.struct([("lat", pa.float64())]))])
    rows = pa.Table.from_pylist([row], schema=schema)
    day = pa.array([NOW.date()])
    writing.add(rows.set_column(rows.column_names.index("_date"), "_date", day))
    table.format.append(table.place, writing.close(), tables.UNNUMBERED)
    found = table.opened().scan(selected_fields=("_id", "at")).to_arrow().sort_by("_id").to_pylist()
    assert found == [{"_id": "0001", "at": None}, {"_id": "0002", "at": {"lat": 1.5}}]
