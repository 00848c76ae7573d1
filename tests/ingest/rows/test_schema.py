"""Schema files as people write them."""

from __future__ import annotations

import pytest

from fairlead_ingest import errors
from fairlead_ingest.rows import schema


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
def test_three_ways_to_say_the_same(text: str) -> None:
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
        ('{"columns": {"": "double"}}', "characters a name"),
        ('{"columns": {"a": "char(3)"}}', "a: char(3): no column has a length; write string"),
        ("a VARCHAR(9)", "a: varchar(9): no column has a length"),
        ('{"columns": {"a": "map<int,string>"}}', "keys of JSON objects are strings"),
        ('{"columns": {"a": "interval"}}', "a: 'interval' is no type of a column"),
        ('{"columns": {"a": "variant"}}', "a: 'variant' is no type of a column"),
        ('{"columns": {"a": "array<struct<b:int,B:int>>"}}', "b: named twice"),
        ('{"columns": {"a": "double"}, "decimals": "up"}', "decimals"),
        ('{"columns": {"a": "' + "array<" * 900 + "int" + ">" * 900 + '"}}', "nested deeper"),
        ('{"type": "struct", "fields": [{"name": "a"}]}', "schema.json"),
        ("[" * 5000, "schema.json"),
        ('{"a":' * 5000, "schema.json"),
    ],
)
def test_a_broken_schema_is_refused_with_its_file_and_reason(text: str, reason: str) -> None:
    """One line, not Spark's whole trace."""
    with pytest.raises(errors.Stop) as refused:
        schema.parse(text, "schema.json")
    assert str(refused.value).startswith(f"{errors.SCHEMA_BROKEN}: schema.json")
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_evolving_contract_may_begin_with_nothing() -> None:
    """Its columns come with the bodies; the others' must be said."""
    assert schema.parse('{"mode": "evolve", "columns": {}}', "s").columns.names == []


def test_a_contract_grows_by_what_the_table_has() -> None:
    """But for the row's own columns and those it has itself, in any case of letters."""
    contract = schema.parse('{"mode": "evolve", "columns": {"Temp": "double"}}', "s")
    held = schema.parse("temp STRING, extra BOOLEAN", "s").columns.add("_batch", "long").add("node", "string")
    assert schema.grown(contract, held).columns.simpleString() == "struct<Temp:double,extra:boolean>"


def test_a_misfit_is_named() -> None:
    """The fields whose columns stayed empty, not those that were null or fit."""
    body, empty = '{"a": "x", "b": null, "c": 1, "unknown": 1}', {"a", "b"}
    assert schema.misfits(body, empty) == ["a"]
    named = schema.with_places("body does not fit the schema: {}", ["a"])
    assert named == "body does not fit the schema at a: {}"
    assert schema.with_places("malformed", ["a"]) == "malformed"


def test_a_body_without_fields_has_no_place_to_name() -> None:
    """It is the body itself that does not fit."""
    assert schema.misfits("[1]", {"a"}) == schema.misfits(None, {"a"}) == []


def test_a_contract_travels_as_text() -> None:
    """To the tasks, which look at bodies with it."""
    contract = schema.parse('{"mode": "evolve", "decimals": "round", "columns": {"a": "decimal(9,2)"}}', "s")
    assert schema.decode(contract.encode()) == contract
