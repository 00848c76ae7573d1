"""Types from values."""

from __future__ import annotations

import pytest

from fairlead_ingest.contracts.guess import DEPTH_MAX, FIELDS_MAX, Guess


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("", None),
        ("null null", None),
        ("1 2 null", "bigint"),
        ("1 2.5", "double"),
        ("1 9007199254740993.5 9007199254740993", "string"),
        ("1 123456789012345678901234567890", "string"),
        ("1e400", "string"),
        ("true false", "boolean"),
        ("true 1", "string"),
        ('"x" 1', "string"),
        ('"2026-11-22"', "date"),
        ('"2026-11-22" "2026-11-22T10:00:00Z"', "timestamp"),
        ('"2026-02-30"', "string"),
        ('"\\ud800"', None),
        ("[1,2] []", "array<bigint>"),
        ("[]", "array<string>"),
        ('[1,"x"]', "array<string>"),
        ("[1] 1", "string"),
        ('{"a":1} {"b":[true],"c":null}', "struct<a:bigint,b:array<boolean>>"),
        ('{"a":1,"A":2}', "string"),
        ('{"a-b":1}', "string"),
        ("{}", "string"),
        ('{"x":{"x":{"x":{"x":1}}}}', "struct<x:struct<x:struct<x:string>>>"),
        ('{"x":"\\ud800"}', None),
    ],
)
def test_the_narrowest_type_that_holds_them_all(values, expected):
    guess = Guess()
    for value in values.split():
        guess.add(value.encode())
    assert guess.type() == expected


def test_what_is_wide_or_deep_stays_text():
    wide = "{" + ",".join(f'"k{number}":1' for number in range(FIELDS_MAX + 1)) + "}"
    guess = Guess()
    guess.add(wide.encode())
    assert guess.type() == "string"
    deep = Guess()
    deep.add(b"[" * 400 + b"]" * 400)
    found = deep.type()
    assert found is not None and found.count("array") <= DEPTH_MAX + 1


def test_numbers_have_a_span():
    guess = Guess()
    for value in (b"1", b"-2.5", b'"x"', b"true"):
        guess.add(value)
    assert (guess.low, guess.high) == (-2.5, 1)
