"""Three truth values, comparisons across types, and undefined on its way up."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from tests.support.edges.routes import message, value

from fairlead_edge.routes import operators
from fairlead_edge.routes.values import UNDEFINED

# A body value for each truth value: true, false, and one that is neither.
WORDS = {True: "$body.yes", False: "$body.no", "undefined": "$body.number"}
BODY = {"yes": True, "no": False, "number": 5, "text": "b", "nil": None, "object": {}, "big": 10**400}


def answer(condition: str) -> bool | str:
    return value(condition, message({"a": "b", "blank": None, "$body.number": "7"}, body=BODY))


@pytest.mark.parametrize(("left", "right"), list(itertools.product(WORDS, repeat=2)))
def test_three_truth_values(left: bool | str, right: bool | str) -> None:
    both: bool | str = False if False in (left, right) else "undefined" if "undefined" in (left, right) else True
    either: bool | str = True if True in (left, right) else "undefined" if "undefined" in (left, right) else False
    first, second = WORDS[left].replace("number", "text"), WORDS[right].replace("number", "text")
    assert answer(f"{first} AND {second}") == both
    assert answer(f"{first} OR {second}") == either
    assert answer(f"{first} AND {second} AND true") == both
    assert answer(f"{first} OR {second} OR false") == either


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("not $body.yes", False),
        ("not $body.text", "undefined"),
        ("not null", True),
        ("not (absent = 'x')", "undefined"),
        ("(null and true) = null", True),
        ("null and false", False),
        ("null or undefined", "undefined"),
        ("null or null", False),
        ("$body.nil or true", True),
        ("$body.yes", True),
        ("$body.nil", "undefined"),
        ("a", "undefined"),
        ("1", "undefined"),
        ("null", False),
        ("undefined", "undefined"),
    ],
)
def test_not_null_and_final_values(condition: str, expected: bool | str) -> None:
    assert answer(condition) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("absent = 'x'", "undefined"),
        ("blank = 'x'", "undefined"),
        ("blank = blank", "undefined"),
        ("false < true", True),
        ("(absent = 'x') = true", "undefined"),
        ("null < null", False),
        ("null <= null", True),
        ("0 / 0 = 0 / 0", "undefined"),
        ("1 / 0 > 5", True),
    ],
)
def test_comparisons_of_one_type(condition: str, expected: bool | str) -> None:
    assert answer(condition) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("$body.text = a", True),
        ("a = $body.text", True),
        ("$body.text = 5", False),
        ("$body.text <> 5", True),
        ("{$body.number} = 5", True),
        ("{$body.number} = '5'", False),
        ("{$body.number} <= 5", True),
        ("$body.yes = true", True),
        ("$body.yes = 1", False),
        ("$body.text = null", False),
        ("$body.text <> null", True),
        ("$body.nil <= null", True),
        ("$body.nil < null", False),
        ("$body.missing > 5", "undefined"),
        ("$body.text < 5", "undefined"),
        ("$body.text = absent", "undefined"),
        ("$body.text = blank", "undefined"),
        ("$body.nil = blank", "undefined"),
        ("blank = $body.nil", "undefined"),
        ("$body.text = as_number(a)", "undefined"),
        ("$body.object = 'x'", "undefined"),
        ("$body.big > 5", True),
        ("$body.number = '7'", True),
        ("$body.yes > $body.no", True),
    ],
)
def test_comparisons_with_body_values(condition: str, expected: bool | str) -> None:
    assert answer(condition) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("{$body.number} + 1 = 6", True),
        ("{$body.number} * {$body.number} - 5 = 20", True),
        ("- {$body.number} = -5", True),
        ("{$body.number} % 0 = 1", "undefined"),
        ("is_defined({$body.number} % 0)", False),
        ("is_defined(- $body.text)", False),
        ("is_defined($body.text + 1)", False),
        ("is_defined($body.nil / 2)", False),
        ("$body.text || 'c' = 'bc'", True),
        ("'c' || $body.text = 'cb'", True),
        ("is_defined({$body.number} || 'c')", False),
        ("is_defined('c' || {$body.number})", False),
        ("'x' || blank || 'y' = 'xy'", True),
        ("{$body.number} + 1 || 'x' = 'y'", "undefined"),
    ],
)
def test_arithmetic_and_concatenation(condition: str, expected: bool | str) -> None:
    assert answer(condition) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("(absent ?? 'x') = 'x'", True),
        ("(a ?? 'x') = 'b'", True),
        ("is_null(blank ?? 'x')", True),
        ("is_null($body.nil ?? 'x')", True),
        ("is_null($body.missing ?? 'x')", True),
        ("($body.object ?? 'x') = 'x'", True),
        ("(as_number(a) ?? as_number(absent) ?? 3) = 3", True),
        ("absent = 'x' ?? true", True),
        ("(undefined ?? undefined) = undefined", "undefined"),
        ("null ?? null", False),
        ("is_defined($body.object ?? as_number(a))", False),
        ("is_defined(as_number(a) ?? $body.object)", False),
        ("(as_number(a) ?? {$body.number}) = 5", True),
        ("($body.object ?? as_number('4')) = 4", True),
    ],
)
def test_coalesce(condition: str, expected: bool | str) -> None:
    assert answer(condition) == expected


def test_a_body_that_cannot_be_read_is_undefined_everywhere() -> None:
    unreadable = message({"a": "b"}, system={}, body=BODY)
    assert value("$body.text = 'b'", unreadable) == "undefined"
    assert value("a = 'b' OR $body.text = 'b'", unreadable) is True
    assert value("is_defined($body.text)", unreadable) is False


# ---- paths into a body -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("root", ("root",)),
        ("a.b.c", ("a", "b", "c")),
        ("a[0].b[12]", ("a", 0, "b", 12)),
        ("123abc", ("123abc",)),
        ("I'm%1.é", ("I'm%1", "é")),
        ("a-b.$c", ("a-b", "$c")),
    ],
)
def test_paths(path: str, steps: tuple[str | int, ...]) -> None:
    assert operators.parse(path) == steps


@pytest.mark.parametrize(
    "path",
    ["", ".", "a.", ".a", "a..b", "a[", "a[]", "a[x]", "a[-1]", "a[0][1]", "[0]", "a[0]b", "12", "a.12", "a[1:2]",
     "a['b']", "a[9999999999]"],
)  # fmt: skip
def test_paths_that_are_none(path: str) -> None:
    with pytest.raises(ValueError):
        operators.parse(path)


DOCUMENT = {"a": {"b": [10, {"c": "x"}]}, "n": None}


@pytest.mark.parametrize(
    ("path", "found"),
    [("a.b[0]", 10), ("a.b[1].c", "x"), ("n", None), ("a.x", None), ("a.b[7]", None), ("a.b.c", None), ("a[0]", None),
     ("n.x", None), ("a.b[0].c", None)],
)  # fmt: skip
def test_find(path: str, found: object) -> None:
    assert operators.find(DOCUMENT, operators.parse(path)) == found


@pytest.mark.parametrize(
    ("found", "expected"),
    [(1, 1.0), (2.5, 2.5), ("x", "x"), (True, True), (None, None), ({}, UNDEFINED), ([], UNDEFINED),
     (10**400, math.inf), (-(10**400), -math.inf)],
)  # fmt: skip
def test_value_of(found: Any, expected: Any) -> None:
    got = operators.value_of(found)
    assert got == expected and type(got) is type(expected)
