"""How the values of one column are looked at."""

from __future__ import annotations

import pytest

from fairlead_ingest.rows import column_looks, ddl
from fairlead_ingest.rows.column_looks import ColumnLook, Misfit
from fairlead_ingest.rows.rules import ColumnRule


def look(data_type: str, rule: ColumnRule) -> ColumnLook:
    return ColumnLook.of("c", ddl.type_of(data_type), rounds=False, rule=rule)


def test_a_close_look_gives_the_text_to_read() -> None:
    """What is no string becomes one in a string's column, whatever is asked of it."""
    assert look("string", ColumnRule(allowed=("5",))).close(b"5") == b'"5"'
    assert look("string", ColumnRule()).close(None) is None and look("string", ColumnRule()).close(b"null") == b"null"


@pytest.mark.parametrize("raw", [None, b"null"])
def test_what_is_required_is_missed(raw: bytes | None) -> None:
    """A null is none."""
    with pytest.raises(Misfit, match="required"):
        look("int", ColumnRule(required=True)).close(raw)


def test_a_number_of_a_thousand_digits_is_no_decimal() -> None:
    """However little it says: Java needs the square of its length."""
    with pytest.raises(Misfit):
        look("decimal(10,2)", ColumnRule()).close(b"1." + b"0" * column_looks.DIGITS_MAX)
    assert look("double", ColumnRule()).close(b"1." + b"0" * 5000) is not None


@pytest.mark.parametrize(
    ("data_type", "expected"),
    [("double", False), ("array<double>", True), ("struct<a:map<string,float>>", True), ("array<int>", False)],
)
def test_floats_inside_of_a_column_are_known(data_type: str, expected: bool) -> None:
    """They are looked at by their text."""
    assert column_looks.has_floats(ddl.type_of(data_type)) is expected
