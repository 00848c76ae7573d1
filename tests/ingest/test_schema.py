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


def test_an_evolving_contract_may_begin_with_nothing(spark: SparkSession) -> None:
    """Its columns come with the bodies; the others' must be said."""
    assert schema.parse('{"mode": "evolve", "columns": {}}', "s").columns.names == []


def test_a_contract_grows_by_what_the_table_has(spark: SparkSession) -> None:
    """But for the row's own columns and those it has itself, in any case of letters."""
    contract = schema.parse('{"mode": "evolve", "columns": {"Temp": "double"}}', "s")
    held = schema.parse("temp STRING, extra BOOLEAN", "s").columns.add("_batch", "long").add("node", "string")
    assert schema.grown(contract, held).columns.simpleString() == "struct<Temp:double,extra:boolean>"


def test_a_misfit_is_named() -> None:
    """The fields whose columns stayed empty, not those that were null or fit."""
    row = {"body": '{"a": "x", "b": null, "c": 1, "unknown": 1}', "a": None, "b": None, "c": 1.0}
    assert schema.misfits(row) == ["a"]
    assert schema.with_places("body does not fit the schema: {}", row) == "body does not fit the schema at a: {}"
    assert schema.with_places("malformed", row) == "malformed"


def test_a_body_without_fields_has_no_place_to_name() -> None:
    """It is the body itself that does not fit."""
    assert schema.misfits({"body": "[1]", "a": None}) == []
    assert schema.misfits({"body": None, "a": None}) == []
