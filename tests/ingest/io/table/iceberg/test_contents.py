"""The rows of a version, and files that a condition passes over."""

from __future__ import annotations

import pyarrow.dataset as ds
from tests.support.tables.iceberg_table import IcebergTable

from fairlead_ingest.io.table.iceberg import contents, iceberg_table


def test_files_are_passed_over_by_topic_and_highest_id(tmp_path):
    table = IcebergTable(tmp_path)
    for batch in range(3):
        table.commit(batch, batch)
    rows = contents.table_dataset(table.place, table.opened())
    assert len(list(rows.get_fragments(ds.field("_id") > "0001"))) == 1
    assert list(rows.get_fragments(ds.field("_topic") == "b/t")) == []
    assert rows.to_table(filter=ds.field("_id") == "0002").num_rows == 1


def test_some_files_are_read_alone_and_none_are_no_rows(tmp_path):
    table = IcebergTable(tmp_path)
    assert contents.table_dataset(table.place, table.opened()).to_table().num_rows == 0
    table.commit(0, 1)
    table.commit(1, 2)
    found = table.opened()
    last = iceberg_table.list_parts(found)[-1:]
    assert contents.parts_dataset(table.place, found, last).to_table()["_id"].to_pylist() == ["0002"]
