"""Why a condition is undefined."""

from __future__ import annotations

import pytest
from tests.support.edges.routes import TWIN, message

from fairlead_edge.routes.compiler import compile_condition
from fairlead_edge.routes.explain import reasons


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("temp = 'x'", ["there is no property temp"]),
        ("as_number(temp) > 5 AND unit = 'x'", ["there is no property temp", "there is no property unit"]),
        ("as_number(kind) > 5", ["as_number: 'pump' is not a number"]),
        ("$origin = 'x'", ["there is no system property origin ($origin)"]),
        ("$body.list = 'x'", ["$body.list is an object or array, which has no value to compare"]),
        ("$body.text > 5", ["> has no answer for 'abc' and 5"]),
        ("blank = 'x'", ["= has no answer for the null property blank and 'x'"]),
        ("$body.nil > true", ["> has no answer for null and true"]),
        ("substring(kind, 9) = 'x'", ["substring has no answer for 'pump' and 9"]),
        ("sqrt(-4) > 1", ["sqrt has no answer for -4"]),
        ("not $body.text", ["not has no answer for 'abc'"]),
        ("undefined AND true", ["undefined is written in the condition"]),
        ("kind", ["the condition is a value, but not true or false"]),
        ("kind = 'pump'", []),
        ("kind = 'x'", []),
        ("temp = 'x' OR true", []),
    ],
)
def test_reasons(condition: str, expected: list[str]) -> None:
    """The innermost places where nothing could be said, in the order of the text."""
    of = message({"kind": "pump", "blank": None}, body={"list": [], "text": "abc", "nil": None})
    assert reasons(compile_condition(condition), of) == expected


def test_an_unreadable_body_says_why() -> None:
    """Once, however often the condition looks into it."""
    condition = compile_condition("$body.a > 5 AND $body.b > 5")
    assert reasons(condition, message(system={}, body={})) == ["contentType is missing; it must be application/json"]
    twin = compile_condition("twin_change_includes(tags.a)", TWIN)
    assert reasons(twin, message(system={}, body={})) == ["contentType is missing; it must be application/json"]


def test_an_empty_condition_has_nothing_to_explain() -> None:
    """It is undefined for everyone."""
    assert reasons(compile_condition(""), message()) == []
