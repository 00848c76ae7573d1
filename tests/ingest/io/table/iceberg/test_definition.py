"""Columns and partitions of a table: made, grown, and left alone where they are not ours."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from tests.support.tables.iceberg_table import NOW, SCHEMA, TOPIC

from fairlead_ingest import errors
from fairlead_ingest.io.table import tables


def test_a_table_that_is_partitioned_otherwise_is_left_alone(table, tmp_path):
    catalog = SqlCatalog("fairlead", uri=table.catalog.uri)
    catalog.create_table(("fairlead", "plain"), SCHEMA, location=f"file://{tmp_path}/plain")
    with pytest.raises(
        errors.Stop,
        match=r"an Iceberg table that this program did not create \(it is not .*another path$",
    ):
        table.format.ensure(tmp_path / "plain", SCHEMA)


def test_others_find_every_column_by_its_name_also_after_it_grew(table):
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
