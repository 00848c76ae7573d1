"""Columns on their way to Iceberg and back, and what a manifest says of a file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.conversions import from_bytes
from pyiceberg.types import StringType, TimestamptzType

from fairlead_ingest import errors
from fairlead_ingest.io.table.files import WrittenFile
from fairlead_ingest.io.table.iceberg import columns

OURS = [("_id", pa.string()), ("_topic", pa.string()), ("_date", pa.date32())]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(), pa.binary(), pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.date32(),
        pa.decimal128(12, 3), pa.timestamp("us", tz="UTC"), pa.timestamp("us"), pa.list_(pa.string()),
        pa.struct([("a", pa.string()), ("b", pa.list_(pa.int64()))]), pa.map_(pa.string(), pa.binary()),
    ],
)  # fmt: skip
def test_a_type_comes_back_as_it_went(kind):
    """Those that a schema file can name; Iceberg has no whole numbers below 32 bits."""
    (found,) = columns.to_arrow(columns.to_iceberg(pa.schema([("x", kind)]))).types
    if pa.types.is_map(kind):
        assert (found.key_type, found.item_type) == (kind.key_type, kind.item_type)
    elif pa.types.is_list(kind):
        assert found.value_type == kind.value_type
    else:
        assert str(found).replace("element", "item") == str(kind).replace("element", "item")


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16()])
def test_small_whole_numbers_are_whole_numbers(kind):
    schema = pa.schema([("x", kind)])
    assert columns.missing_fields(Path("t"), columns.to_iceberg(schema), schema) == []


def test_a_column_that_changes_its_type_is_refused():
    held = columns.to_iceberg(pa.schema(OURS))
    assert columns.missing_fields(Path("t"), held, pa.schema([*OURS, ("x", pa.int64())])) == ["x"]
    with pytest.raises(errors.Stop, match="column _id is string in the table and bigint in the job"):
        columns.missing_fields(Path("t"), held, pa.schema([("_id", pa.int64())]))


def test_bounds_come_from_the_task():
    schema = columns.to_iceberg(pa.schema([*OURS, ("_published_at", pa.timestamp("us", tz="UTC"))]))
    file = WrittenFile(
        path="_topic=a/_date=2026-11-20/part-1.parquet",
        size=10,
        rows=2,
        topic="a/t",
        date="2026-11-20",
        minimum={"_id": "01", "_published_at": "2026-11-20T12:00:00.001Z"},
        maximum={"_id": "02"},
    )
    found = columns.data_file(file, "file:///t", schema, columns.partitions(schema))
    assert (found.file_path, found.record_count) == ("file:///t/_topic=a/_date=2026-11-20/part-1.parquet", 2)
    ids, moments = schema.find_field("_id").field_id, schema.find_field("_published_at").field_id
    assert from_bytes(StringType(), found.upper_bounds[ids]) == "02"
    moment: object = from_bytes(TimestamptzType(), found.lower_bounds[moments])
    assert moment == 1_763_640_000_001_000 + 31_536_000_000_000
