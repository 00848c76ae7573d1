"""Which values a column holds exactly, and which columns unknown fields would get."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types

from fairlead_ingest.rows import ddl, fitting
from fairlead_ingest.rows.fitting import Judge, Verdict
from fairlead_ingest.rows.rules import ColumnRule

FITS = {
    "tinyint": ["-128", "127", "null"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "float": ["0.1", "-3.4028235e38", "16777216", "33554432"],
    "double": ["0.1", "1.7976931348623157e308", "9007199254740992", "9007199254740994", "-0.0", "0", "0.0", "1e22",
               "0e-99", "5e-324"],
    "array<float>": ["[1.5e-10,0.0,1]"],
    "decimal(10,2)": ["1.23", "1.2300", '"12.5"', "99999999.99", "-1e3", "0e5", "0.00"],
    "boolean": ["true", "false"],
    "date": ['"2026-11-22"', '"0001-01-01"', '"9999-12-31"', '"2026-1-5"'],
    "timestamp": [
        '"2026-11-22T10:00:00.123456Z"', '"2026-11-22T10:00:00.1234560+01:00"', '"2026-11-22 10:00"', '"2026-11-22"',
        '"9999-12-31T23:59:59.999999Z"', '"0001-01-01T00:00:00Z"', "1700000000", "-62135596800", "253402300799",
        '"2026-11-22 10:00:00 Europe/Paris"', '"2024-02-29T1:2:3Z"', '"2026-1-31 10:00:00+1:30"', '"2026-11-30 10:00"',
        '"2026-11-22T10:00:00UTC-18:00"', '"2026-11-22T10:00:00 PST"', '"2026-11-22 10:00:00.5 +0100"',
        '"2026-11-22T10:00GMT"', '"2026-11-22 1:2 GMT"',
    ],
    "timestamp_ntz": ['"2026-11-22T10:00:00.5"', '"2026-11-22"'],
    "binary": ['"aGk="', '""', '" aGk= "', '"aGk=YW=="', '"YWJj\\r\\nYWJj"'],
    "string": ['"x"', '"\\ud83d\\ude00"', '"\\u0000"', "null"],
    "array<tinyint>": ["[1,null,-1]", "[]"],
    "map<string,float>": ['{"x": 1.5, "": null}'],
    "struct<a:decimal(3,1),`b.c`:timestamp>": ['{"a": 1.5, "b.c": "2026-11-22", "other": 1e999}', "{}"],
}  # fmt: skip
MISFITS = {
    "tinyint": ["128", "200", "-129", "1.0", '"5"', "true", "[1]"],
    "int": ["2147483648", "1e2"],
    "bigint": ["9223372036854775808", "-9223372036854775809"],
    "float": ["1e39", "-1e39", "16777217", '"NaN"', "1e400", "1e-50"],
    "double": ["1e309", "1e-400", "-0.5e-400", "9007199254740993", "123456789012345678901234567890",
               '"Infinity"', '"1.5"', "true"],
    "decimal(10,2)": ["1.239", "100000000", '"1,234"', "1e1000000000", "1e-1000000000", '"NaN"', "true", "{}"],
    "boolean": ["1", '"true"'],
    "date": ['"2026-11-22T10:00"', '"2026-11"', '"20261122"', '"10000-01-01"', '"0000-01-01"', "17000", '"today"',
             '"2026-02-29"', '"2026-13-01"', '"2026-00-10"', '"2026-4-31"', '"2026-12-0"'],
    "timestamp": [
        '"12:30"', '"2026"', '"2026-11"', '"2026-11-22T10:00:00.1234567Z"', '"0001-01-01T00:00:00+14:00"',
        '"9999-12-31T23:59:59-01:00"', '"10000-01-01"', "253402300800", "1.5", '"now"', '"2026-11-22 "',
        '"2026-02-30T10:00:00Z"', '"2026-11-22T24:00"', '"2026-11-22T10:60"',
        '"2026-11-22T10:00:60Z"', '"2026-11-22T10:00Z"', '"2026-11-22 10:00 +01:00"', '"2026-11-22T10:00:00z"',
        '"2026-11-22T10:00:00+18:01"', '"2026-11-22T10:00:00+1:2:3"', '"2026-11-22T10:00:00UTC+19"',
        '"2026-11-22 10:00:00 Europe/Nowhere"', '"2026-11-22 10:00:00 europe/paris"', '"2026-11-22T10:00:00+130"',
    ],
    "timestamp_ntz": ['"2026-11-22T10:00:00Z"', '"12:30"', "1700000000"],
    "string": ['"\\ud800x"', '"\\udc00"'],
    "binary": ["5", "[]", '"aGk"', '"aG k="', '"YW="', '"===="', '"a-_k"'],
    "array<tinyint>": ["[1,200]", "5", "{}"],
    "array<double>": ["[1.5,1e-400]", "[1e309]"],
    "map<string,float>": ['{"x": 1e39}', "[]"],
    "struct<a:decimal(3,1),`b.c`:timestamp>": ['{"a": 1.55}', '{"b.c": "12:30"}', "[1]"],
}  # fmt: skip


def judge(data_type: str, *, rounds: bool = False, evolves: bool = False) -> Judge:
    columns = types.StructType([types.StructField("c", ddl.type_of(data_type))])
    return Judge(columns, rounds=rounds, evolves=evolves)


@pytest.mark.parametrize(
    ("data_type", "value"), [(data_type, value) for data_type, values in FITS.items() for value in values]
)
def test_what_a_column_holds_exactly_fits(data_type, value):
    verdict = judge(data_type).judge(b'{"c": %s}' % value.encode())
    assert verdict.fits
    assert verdict.text is None or value.replace(" ", "") in verdict.text.replace(" ", "") or "other" in value


@pytest.mark.parametrize(
    ("data_type", "value"), [(data_type, value) for data_type, values in MISFITS.items() for value in values]
)
def test_what_would_be_changed_is_a_misfit(data_type, value):
    verdict = judge(data_type).judge(b'{"c": %s, "other": 1}' % value.encode())
    assert (verdict.fits, verdict.text) == (False, "{}")


@pytest.mark.parametrize(
    "value", ["1.10", "1E5", '{"x":1.10, "y" : [1,2.50]}', "12345678901234567890.123", "-0", "true"]
)
def test_what_is_no_string_goes_into_a_string_column_as_it_was_written(value):
    verdict = judge("string").judge(b'{"c": %s}' % value.encode())
    assert verdict.fits and verdict.text is not None
    assert verdict.text == '{"c":"' + value.replace('"', '\\"') + '"}'
    nested = judge("array<string>").judge(b'{"c": ["x", 1.10, null]}')
    assert (nested.fits, nested.text) == (True, '{"c":["x","1.10",null]}')


def test_one_misfit_costs_its_own_column_only():
    columns = ddl.columns_of("a tinyint, b double, `c d` string")
    verdict = Judge(columns).judge(b'{"a": 200, "b": 1.5, "c d": "x", "e": 1}')
    assert (verdict.fits, verdict.text) == (False, '{"b":1.5,"c d":"x"}')


def test_decimals_are_rounded_where_that_is_wanted():
    """What has too many digits before the point never fits."""
    assert judge("decimal(10,2)", rounds=True).judge(b'{"c": 1.239}').fits
    assert not judge("decimal(10,2)", rounds=True).judge(b'{"c": 100000000.239}').fits
    assert not judge("decimal(10,2)", rounds=True).judge(b'{"c": 1e-1000000000}').fits


def test_a_field_that_can_never_have_a_column_is_said_where_tables_evolve():
    body = b'{"c": 1.5, "C": 2}'
    assert not judge("double", evolves=True).judge(body).fits
    assert judge("double").judge(body).fits
    assert judge("double", evolves=True).judge(b'{"c": 1.5, "C": null, "d": 1}').fits


@pytest.mark.parametrize("body", [b"[1]", b'"x"', b"null", b"5"])
def test_what_is_no_object_fits_no_columns(body):
    """It has no fields; without columns nothing is asked of it."""
    assert not judge("double").judge(body).fits
    assert Judge(types.StructType()).judge(body).fits


def test_a_body_with_a_name_that_spark_refuses_is_read_without_it():
    name = "n" * 60_000
    assert judge("double").judge(b'{"c": 1.5, "%s": 1}' % name.encode()).text == '{"c":1.5}'
    assert not judge("map<string,int>").judge(b'{"c": {"%s": 1}}' % name.encode()).fits


@pytest.mark.parametrize(
    ("data_type", "values"),
    [
        ("timestamp", ['"2026-02-30"', "1700000000"]),
        ("date", ['""', '"2026-11-22"']),
        ("binary", ['"a"', '"aGk="']),
        ("decimal(5,2)", ["1e400", "1"]),
        ("struct<d:decimal(5,2),t:timestamp>", ['{"d":1.239,"d":1}', '{"t":"12:30","t":5}']),
        ("array<struct<d:decimal(5,2)>>", ['[{"d":1.239,"d":1}]', "[]"]),
        ("struct<d:decimal(5,2)>", ['{"d":9999.5}', "{}"]),
        ("struct<s:struct<t:timestamp>>", ['{"s":{"t":"2026-11-22T10:00:00 Europe/Nowhere"}}', '{"s":null}']),
        ("timestamp", ['"2026-11-22T10:00:00 Europe/Nowhere"', "null"]),
        ("tinyint", ["300", "1"]),
    ],
)
def test_of_a_field_said_twice_the_last_counts(data_type, values):
    """And Spark is shown that alone, where it would stumble over the first."""
    first, last = values
    body = f'{{"c": {first}, "c": {last}}}'
    verdict = judge(data_type).judge(body.encode())
    assert verdict.fits and verdict.text is not None and first not in verdict.text
    assert judge("decimal(5,2)").judge(b'{"c": 1e400, "\\u0063": 1}') == Verdict(text='{"c":1}')
    for name, again in (("a/b", "a\\/b"), ("\u0142", "\\u0142"), ("\u00b0", "\\u00b0")):
        odd = Judge(types.StructType([types.StructField(name, ddl.type_of("decimal(5,2)"))]))
        assert odd.judge(f'{{"{name}": 9999, "{again}": 1}}'.encode()).text == f'{{"{name}":1}}'
    assert judge("timestamp").judge(b'{"c": 1, "unit": "\\u00b0C"}').text is None


RULES = {
    "a": ColumnRule(required=True, minimum=-1.5, maximum=10),
    "b": ColumnRule(allowed=("on", "off")),
    "c": ColumnRule(required=True),
}


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ('{"a": 1, "b": "on", "c": "x"}', []),
        ('{"a": -1.5, "b": "\\u006fff", "c": 5}', []),
        ('{"a": 10, "b": null, "c": ""}', []),
        ('{"a": 10.5, "c": ""}', [("a", "above the maximum 10")]),
        ('{"a": -2, "c": ""}', [("a", "below the minimum -1.5")]),
        ('{"a": "x", "b": "On", "c": "y"}', [("a", "is not of type double"), ("b", "not one of the allowed values")]),
        ('{"a": null, "b": 5}', [("a", "required"), ("b", "not one of the allowed values"), ("c", "required")]),
        ('{"a": 1, "c": null}', [("c", "required")]),
        ('{"a": 1, "a": null, "c": "x"}', [("a", "required")]),
    ],
)
def test_rules_are_judged_by_either_look(body, wrong):
    columns = ddl.columns_of("a double, b string, c string")
    verdict = Judge(columns, rules=RULES).judge(body.encode())
    assert ([tuple(each) for each in verdict.wrong], verdict.fits) == (wrong, not wrong)
    assert not any(f'"{name}":' in (verdict.text or "") for name, _ in wrong)


@pytest.mark.parametrize(
    ("data_type", "rule", "fits", "misfits"),
    [
        ("int", ColumnRule(minimum=0, maximum=3), ["0", "3"], ["-1", "4"]),
        ("int", ColumnRule(allowed=(1, 3)), ["1", "3"], ["2", '"1"', "true"]),
        ("double", ColumnRule(minimum=0.2, maximum=0.8), ["0.2", "0.5", "8e-1"], ["0", "1", "0.1", "1e-400"]),
        (
            "double",
            ColumnRule(minimum=0),
            ["0", "0.0", "1e300", "9007199254740992"],
            ["-0.1", "1e-400", "9007199254740993"],
        ),
        ("float", ColumnRule(maximum=1e30), ["1e30", "-1e38"], ["1e31", "1e39"]),
        ("decimal(5,2)", ColumnRule(minimum=0.1, maximum=100), ["0.1", '"99.99"', "100"], ["0.09", "100.01", "1.239"]),
    ],
)
def test_bounds_and_lists_belong_to_what_is_allowed(data_type, rule, fits, misfits):
    judged = Judge(types.StructType([types.StructField("c", ddl.type_of(data_type))]), rules={"c": rule})
    assert [value for value in fits if not judged.judge(b'{"c": %s}' % value.encode()).fits] == []
    assert [value for value in misfits if judged.judge(b'{"c": %s}' % value.encode()).fits] == []


def test_columns_of_other_routes_are_not_read():
    judged = Judge(ddl.columns_of("a double"), foreign=("b",))
    assert judged.judge(b'{"a": 1, "c": 2}').text is judged.judge(b'{"a": 1, "b": null}').text is None
    assert judged.judge(b'{"a": 1, "b": 2}') == Verdict(text='{"a":1}')
    assert Judge(types.StructType(), foreign=("b",)).judge(b'{"b": 2}') == Verdict(text="{}")


@pytest.mark.parametrize(
    ("bodies", "found"),
    [
        (
            ['{"n": 1, "d": -2.5, "b": true, "s": "x", "o": {"a": 1}, "l": [1], "known": 1}'],
            {"n": "double", "d": "double", "b": "boolean", "s": "string", "o": "string", "l": "string"},
        ),
        (['{"a": null}'], {}),
        (['{"a": null}', '{"a": 1}'], {"a": "double"}),
        (['{"a": 1}', '{"a": "x"}'], {"a": "string"}),
        (["[1]", '"x"', "1", None], {}),
        # The row's own names begin with an underscore; the others would have to be quoted in every query.
        (['{"_id": 1, "a b": 1, "": 1, "ä": 1, "a.b": 1}'], {}),
    ],
)
def test_a_field_without_a_column_is_found_with_its_type(bodies, found):
    assert fitting.unknown_fields(bodies, ["known"]) == found


def test_fields_of_several_types_are_text():
    assert fitting.merge_fields([{"b": "double"}, {"a": "boolean", "b": "boolean"}]) == {"a": "boolean", "b": "string"}


def test_a_column_is_added_once_whatever_its_case():
    added = fitting.new_columns({"Temp": "double", "temp": "string", "Node": "string"}, ["node"])
    assert added == pa.schema([("Temp", pa.float64())])


def test_a_table_grows_up_to_a_limit():
    held = [f"c{number}" for number in range(fitting.COLUMNS_MAX - 1)]
    assert fitting.new_columns({"a": "double", "b": "double"}, held).names == ["a"]
