"""What a query is made of, as far as it needs no Spark session."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql.types import LongType, StringType, StructField, StructType

from fairlead_ingest.io.pipeline import query
from fairlead_ingest.settings import Pipeline


def test_the_tables_columns_are_the_querys_with_the_batch_beside_the_day() -> None:
    """What travels beside the columns is none of the table's."""
    names = ["id", "_topic", "_error", "_payload", "_date"]
    found = query.table_schema(StructType([StructField(name, StringType(), nullable=False) for name in names]))
    assert found.names == ["id", "_topic", "_batch", "_date"]
    assert all(field.nullable for field in found)
    assert str(query.table_schema(StructType([StructField("n", LongType())])).field("_batch").type) == "int64"


def test_a_pipeline_without_a_schema_never_grows_its_table(tmp_path: Path) -> None:
    """Only the mode evolve does."""
    assert not query.evolves(Pipeline(topics=["a/t"], table=str(tmp_path / "t"), checkpoint=str(tmp_path / "c")))
