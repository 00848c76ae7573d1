"""Suggestions: what was probably meant."""

from __future__ import annotations

import pytest
from tests.support.edges.routes import mistakes


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("temp > 100", "has the property temp (always text) and 100; did you mean as_number(temp)?"),
        ("100 < $temp", "did you mean as_number($temp)?"),
        ("temp + 1 = 2", "+ needs numbers, has the property temp (always text) and 1; did you mean as_number(temp)?"),
        ("flag = true", "did you mean 'true' in quotes?"),
        ("flag = null", "did you mean is_null(flag)?"),
        ("flag = undefined", "did you mean is_defined(flag)?"),
        ("5 = '5'", "did you mean 5 without quotes?"),
        ("5 + ' 6 ' = 11", "did you mean 6 without quotes?"),
        ("5 = 'five'", "has 5 and 'five'"),
        (
            "a = 'x' || b = 'y'",
            "has true or false and 'y'; || joins texts and comparisons do not chain: did you mean AND or OR?",
        ),
        ("true || false", "did you mean OR?"),
        ("not a = 'b'", "NOT binds tighter than a comparison: did you mean NOT (...)?"),
        ("- temp = 5", "- needs a number, has the property temp (always text); did you mean as_number(temp)?"),
        ("-temp = 5", "did you mean - temp with a blank?"),
        ("abs(temp) > 5", "expected abs(number), not abs of the property temp (always text); did you mean as_number("),
        ("concat('a') = 'a'", "expected concat(text, text, ...), not concat of 'a'"),
        ("length() = 5", "expected length(text), not length of nothing"),
        ("substring('a', 'b') = 'x'", "expected substring(text, start) or substring(text, start, length)"),
        ("lenght('a') = 1", "there is no function lenght; did you mean length?"),
        ("xyzzy('a') = 1", "there is no function xyzzy"),
        ("a AND true", "AND needs true or false on both sides, has the property a (always text) and true"),
        ("$body.[0] = 1", "not a path into the body: a name is missing"),
        ("$body.a.0 = 1", "an array element is written name[0]"),
    ],
)
def test_suggestions(condition: str, said: str) -> None:
    """The first mistake says what is there, what is needed, and often what to write instead."""
    assert said in mistakes(condition)[0].message


def test_long_names_cost_no_time() -> None:
    """A function name of sixty thousand characters gets no suggestion, but at once."""
    (error,) = mistakes("x" * 60_000 + "()")
    assert error.message.startswith("there is no function")
