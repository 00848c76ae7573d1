"""Schema files as people write them."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from fairlead_ingest import errors, schema


@pytest.mark.parametrize(
    "text",
    [
        '{"columns": {"temperature": "double", "tags": "array<string>"}}',
        "temperature DOUBLE, tags ARRAY<STRING>",
        '{"type": "struct", "fields": ['
        '{"name": "temperature", "type": "double", "nullable": true, "metadata": {}},'
        '{"name": "tags", "type": {"type": "array", "elementType": "string", "containsNull": true},'
        ' "nullable": true, "metadata": {}}]}',
    ],
)
def test_three_ways_to_say_the_same(spark: SparkSession, text: str) -> None:
    """Ours, DDL, Spark's own JSON."""
    contract = schema.parse(text, "schema.json")
    assert contract.columns.simpleString() == "struct<temperature:double,tags:array<string>>"
    assert contract.mode == "freeze"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "schema.json"),
        ("{", "schema.json"),
        ('{"columns": {}}', "no columns"),
        ('{"columns": {"a": "dubble"}}', "schema.json"),
        ('{"columns": {"a": "double"}, "mode": "loose"}', "mode"),
        ('{"columns": {"a": "double"}, "colums": 1}', "colums"),
        ('{"columns": {"body": "double"}}', "body: the row already has"),
        ('{"columns": {"_x": "double"}}', "_x: the row already has"),
        ('{"columns": {"a": "double", "A": "string"}}', "named twice"),
    ],
)
def test_a_broken_schema_is_refused_with_its_file_and_reason(spark: SparkSession, text: str, reason: str) -> None:
    """One line, not Spark's whole trace."""
    with pytest.raises(errors.Stop) as refused:
        schema.parse(text, "schema.json")
    assert str(refused.value).startswith(f"{errors.SCHEMA_BROKEN}: schema.json")
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)
