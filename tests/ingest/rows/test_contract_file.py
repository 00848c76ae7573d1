"""Contracts and schema files as people write them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_ingest import errors
from fairlead_ingest.rows import contract_file
from fairlead_ingest.rows.contract import SHARED, decode_contract
from fairlead_ingest.rows.rules import ColumnRule


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
def test_three_ways_to_say_the_same(text):
    contract = contract_file.parse(text, "schema.json")
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
        ('{"columns": {"a": "double", "A": "string"}}', "repeated name"),
        ('{"columns": {"": "double"}}', "must have 1 to"),
        ('{"columns": {"a": "char(3)"}}', "a: char(3): lengths are not supported; use string"),
        ("a VARCHAR(9)", "a: varchar(9): lengths are not supported"),
        ('{"columns": {"a": "map<int,string>"}}', "keys of a map must be strings"),
        ('{"columns": {"a": "interval"}}', "a: 'interval' is not a type of a column"),
        ('{"columns": {"a": "variant"}}', "a: 'variant' is not a type of a column"),
        ('{"columns": {"a": "array<struct<b:int,B:int>>"}}', "b: repeated name"),
        ('{"columns": {"a": "double"}, "decimals": "up"}', "decimals"),
        ('{"columns": {"a": "' + "array<" * 900 + "int" + ">" * 900 + '"}}', "nested deeper"),
        ('{"type": "struct", "fields": [{"name": "a"}]}', "schema.json"),
        ("[" * 5000, "schema.json"),
        ('{"a":' * 5000, "schema.json"),
    ],
)
def test_a_broken_schema_is_refused_with_its_file_and_reason(text, reason):
    with pytest.raises(errors.Stop) as refused:
        contract_file.parse(text, "schema.json")
    assert str(refused.value).startswith(f"{errors.SCHEMA_BROKEN}: schema.json")
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_mistakes_of_a_contract_are_told_together():
    text = """
nam = "t"
version = 2
mode = "loose"
[columns]
kind = { type = "string", enums = ["a"] }
price = "duble"
[[routes]]
name = "doors"
sorce = "x"
columns = { open = { type = "bolean" } }
"""
    with pytest.raises(errors.Stop) as refused:
        contract_file.parse(text, "t.toml")
    for each in (
        "unknown key 'nam', did you mean name?",
        "kind: unknown key 'enums', did you mean enum?",
        "price: 'duble' is not a type of a column, did you mean double?",
        "route doors: unknown key 'sorce', did you mean source?",
        "route doors: open: 'bolean' is not a type of a column, did you mean boolean?",
        "mode: must be one of freeze, rescue, evolve, not 'loose'",
        "name: required together with version",
    ):
        assert each in str(refused.value)
    with pytest.raises(errors.Stop, match=r"line 2, column 9.*are quotes missing"):
        contract_file.parse("[columns]\nprice = double\n", "t.toml")


def test_an_evolving_contract_may_begin_with_nothing():
    """Its columns come with the bodies; the others' must be said."""
    assert contract_file.parse('{"mode": "evolve", "columns": {}}', "s").columns.names == []


TELEMETRY = """
name = "telemetry"
version = 3
description = "What thermometers and doors send"

[columns]
site = { type = "string", required = true, enum = ["north", "south"] }
count = "int"

[[routes]]
name = "thermometers"
source = "/messages/modules/thermometer/*"
columns = { temperature = { type = "double", minimum = -60, maximum = 150 }, count = { type = "int", required = true } }

[[routes]]
name = "doors"
properties = { kind = "door" }
columns = { open = "boolean", temperature = "double" }
"""


def test_a_contract_in_toml_has_everything():
    """Columns of routes follow those of all messages; what several routes name is one column."""
    contract = contract_file.parse(TELEMETRY, "telemetry.toml")
    assert contract.title == "telemetry version 3"
    assert contract.columns.simpleString() == "struct<site:string,count:int,temperature:double,open:boolean>"
    assert contract.routed == ("temperature", "open")
    assert contract.rules == {"site": ColumnRule(required=True, allowed=("north", "south"))}
    assert contract.columns_of(SHARED).names == ["site", "count"]
    assert contract.columns_of(0).names == ["site", "count", "temperature"]
    assert contract.foreign_to(0) == ("open",) and contract.foreign_to(1) == ()
    assert contract.rules_of(0)["count"] == ColumnRule(required=True)
    assert contract.rules_of(0)["temperature"] == ColumnRule(minimum=-60, maximum=150)
    assert contract.rules_of(1) == contract.rules
    assert decode_contract(contract.encode()) == contract


def column(text: str) -> str:
    return json.dumps({"columns": {"a": json.loads(text)}})


def routes(*found: dict[str, Any]) -> str:
    return json.dumps({"columns": {"a": "double"}, "routes": found})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"name": "a b", "version": 1, "columns": {"a": "int"}}', "name: must be"),
        ('{"name": "a", "columns": {"a": "int"}}', "version: required together with name"),
        ('{"version": 1, "columns": {"a": "int"}}', "name: required together with version"),
        ('{"name": "a", "version": "1", "columns": {"a": "int"}}', "Expected `int`"),
        (column('{"type": "int", "requird": true}'), "requird"),
        (column('{"required": true}'), "type"),
        (column('{"type": "string", "enum": []}'), "a: enum: the list is empty"),
        (column('{"type": "int", "enum": ["1"]}'), "a: enum: '1' is not a int"),
        (column('{"type": "int", "enum": [true]}'), "columns"),
        (column('{"type": "tinyint", "enum": [300]}'), "a: enum: 300 is not a tinyint"),
        (column('{"type": "string", "enum": [1]}'), "a: enum: 1 is not a string"),
        (column('{"type": "double", "enum": [1]}'), "a: enum: allowed for strings and integers"),
        (column('{"type": "string", "minimum": 1}'), "a: minimum: allowed for numbers"),
        (column('{"type": "int", "minimum": 1.5}'), "a: minimum: must be a whole number"),
        (column('{"type": "int", "minimum": 3, "maximum": 2}'), "a: no int is between"),
        (column('{"type": "tinyint", "minimum": 200}'), "a: no tinyint is between"),
        (column('{"type": "double", "minimum": 1e400}'), "schema.json: "),
        (column('{"type": "double", "maximum": 12345678901234567890}'), "cannot hold"),
        ('{"columns": {"a": "int", "b": "int", "a": "string"}}', "schema.json: a: repeated name"),
        ('{"mode": "rescue", "columns": {"a": "int"}, "mode": "freeze"}', "mode: repeated name"),
        (routes({"name": "r"}), "route r: set source, topic"),
        (routes({"name": "r r", "source": "x"}), "routes: name: must be"),
        (routes({"name": "r", "source": "x"}, {"name": "r", "source": "y"}), "route r: repeated name"),
        (routes({"name": "r", "source": "x", "columns": {"a": "int"}}), "a column has one type in a table"),
        (routes({"name": "r", "source": "x", "columns": {"A": "double"}}), "a: repeated name"),
        (routes({"name": "r", "source": "x", "columns": {"b": "dubble"}}), "route r: b: 'dubble'"),
        (routes({"name": "r", "source": "x", "columns": {"node": "string"}}), "node: the row already has"),
        (routes({"name": "r", "source": "x", "match": 1}), "match"),
        (routes(*({"name": f"r{each}", "source": "x"} for each in range(101))), "at most 100"),
    ],
)
def test_a_broken_contract_is_refused_with_its_place(text, reason):
    with pytest.raises(errors.Stop) as refused:
        contract_file.parse(text, "schema.json")
    assert str(refused.value).startswith(f"{errors.SCHEMA_BROKEN}: schema.json: ")
    assert reason in str(refused.value)


def test_broken_toml_is_refused():
    with pytest.raises(errors.Stop, match="Invalid value"):
        contract_file.parse("name = ", "c.toml")
    with pytest.raises(errors.Stop, match=r"c\.toml: "):
        contract_file.parse('columns = { a = { type = "double", minimum = nan } }', "c.toml")


def test_bodies_are_judged_by_the_columns_of_their_route():
    judge = contract_file.parse(TELEMETRY, "telemetry.toml").judge()
    body = b'{"site": "north", "count": 1, "temperature": 200, "open": "yes"}'
    sources = ["/messages/modules/thermometer/o", None, None]
    looked = judge.verdicts("a/t", [body, body, body, None], [*sources, None], [None, '{"kind": "door"}', None, None])
    assert [[tuple(wrong) for wrong in each.wrong] if each else None for each in looked] == [
        [("temperature", "above the maximum 150")],
        [("open", "is not of type boolean")],
        [],
        None,
    ]
    assert looked[2] is not None and looked[2].text == '{"site":"north","count":1}'
