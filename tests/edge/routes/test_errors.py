"""Places: line and column from 1, end exclusive, and carets below them."""

from __future__ import annotations

import pytest

from fairlead_edge.routes.errors import CompileError, Invalid, caret, error_at


@pytest.mark.parametrize(
    ("text", "start", "end", "place"),
    [
        ("abc", 0, 1, (1, 1, 2)),
        ("a\nbcd", 3, 4, (2, 2, 3)),
        ("a\r\nbcd", 3, 6, (2, 1, 4)),
        ("ab\ncd", 1, 5, (1, 2, 4)),
        ("abc", 3, 4, (1, 4, 5)),
        ("", 0, 5, (1, 1, 2)),
        ("\r", 1, 2, (1, 2, 3)),
    ],
)
def test_places(text: str, start: int, end: int, place: tuple[int, int, int]) -> None:
    error = error_at(text, start, end, "x")
    assert (error.line, error.column, error.end_column) == place


def test_json_shape() -> None:
    error = CompileError(line=1, column=2, end_column=4, message="no")
    assert error.as_json() == {"message": "no", "line": 1, "column": 2, "endColumn": 4}


def test_caret() -> None:
    text = "a = 'b'\n\tAND c > 5"
    assert caret(text, error_at(text, text.index(">"), text.index(">") + 1, "x")) == "\tAND c > 5\n\t      ^"


def test_invalid_reads_as_a_list() -> None:
    invalid = Invalid([error_at("ab", 0, 1, "one"), error_at("ab", 1, 2, "two")])
    assert str(invalid) == "1:1: one; 1:2: two"
