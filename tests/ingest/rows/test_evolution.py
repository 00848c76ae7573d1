"""Which columns the fields of bodies ask for."""

from __future__ import annotations

import pyarrow as pa

from fairlead_ingest.rows import fitting


def test_a_field_without_a_column_is_found_with_its_type() -> None:
    """Numbers are doubles, what has parts is text."""
    body = '{"n": 1, "d": -2.5, "b": true, "s": "x", "o": {"a": 1}, "l": [1], "known": 1}'
    found = fitting.unknown_fields([body], ["known"])
    assert found == {"n": "double", "d": "double", "b": "boolean", "s": "string", "o": "string", "l": "string"}


def test_a_null_says_nothing_of_a_type() -> None:
    """The column comes with the first value."""
    assert fitting.unknown_fields(['{"a": null}'], []) == {}
    assert fitting.unknown_fields(['{"a": null}', '{"a": 1}'], []) == {"a": "double"}


def test_fields_of_several_types_are_text() -> None:
    """Within a task and over tasks."""
    assert fitting.unknown_fields(['{"a": 1}', '{"a": "x"}'], []) == {"a": "string"}
    assert fitting.merge_fields([{"b": "double"}, {"a": "boolean", "b": "boolean"}]) == {"a": "boolean", "b": "string"}


def test_what_is_no_object_has_no_fields() -> None:
    """Arrays, texts, numbers, no body at all."""
    assert fitting.unknown_fields(["[1]", '"x"', "1", None], []) == {}


def test_names_no_column_may_have_stay_in_the_body() -> None:
    """The row's own names begin with an underscore; the others would need quoting for ever."""
    assert fitting.unknown_fields(['{"_id": 1, "a b": 1, "": 1, "ä": 1, "a.b": 1}'], []) == {}


def test_a_column_is_added_once_whatever_its_case() -> None:
    """Spark and Delta do not tell them apart."""
    added = fitting.new_columns({"Temp": "double", "temp": "string", "Node": "string"}, ["node"])
    assert added == pa.schema([("Temp", pa.float64())])


def test_a_table_grows_up_to_a_limit() -> None:
    """A hostile producer's fields stay in the bodies."""
    held = [f"c{number}" for number in range(fitting.COLUMNS_MAX - 1)]
    assert fitting.new_columns({"a": "double", "b": "double"}, held).names == ["a"]
