"""Why a condition is undefined."""

from __future__ import annotations

import pytest
from tests.support.edges.routes import TWIN, message

from fairlead_edge.routes.compiler import compile_condition, compile_route
from fairlead_edge.routes.explain import advise, reasons


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
        ("", []),
    ],
)
def test_reasons(condition: str, expected: list[str]) -> None:
    of = message({"kind": "pump", "blank": None}, body={"list": [], "text": "abc", "nil": None})
    assert reasons(compile_condition(condition), of) == expected


def test_an_unreadable_body_says_why() -> None:
    condition = compile_condition("$body.a > 5 AND $body.b > 5")
    assert reasons(condition, message(system={}, body={})) == ["contentType is missing; it must be application/json"]
    twin = compile_condition("twin_change_includes(tags.a)", TWIN)
    assert reasons(twin, message(system={}, body={})) == ["contentType is missing; it must be application/json"]


@pytest.mark.parametrize(
    ("route", "column", "said"),
    [
        ("FROM /messages/modules/*/outputs/o INTO $upstream", 6, "a * counts only at the end"),
        ("FROM /message/* INTO $upstream", 6, "no message comes from here"),
        ("FROM /* WHERE body.temp = 'x' INTO $upstream", 15, "is a property of the message; did you mean $body.temp?"),
        ("FROM /* WHERE a||b = 'x' INTO $upstream", 15, "a||b is one name; put blanks around ||"),
        ("FROM /* WHERE length(qty-1) = 3 INTO $upstream", 22, "qty-1 is one name; put blanks around -"),
        ("FROM /* WHERE x = 'a' AND NOT is_defined(a*2) INTO $upstream", 42, "put blanks around *"),
        ("FROM /* WHERE is_defined(-x) INTO $upstream", 26, "put blanks around -"),
    ],
)
def test_advice(route: str, column: int, said: str) -> None:
    (advice,) = advise(compile_route(route))
    assert (advice.line, advice.column) == (1, column)
    assert said in advice.message


@pytest.mark.parametrize(
    "route",
    [
        "FROM /* INTO $upstream",
        "FROM /messages INTO $upstream",
        "FROM /TwinChangeNotifications/* WHERE twin_change_includes(tags.a-b) INTO $upstream",
        "FROM /messages/modules/m/* WHERE iothub-connection-device = 'a-1' AND $body.a > 2 - 1 INTO $upstream",
    ],
)
def test_nothing_to_say(route: str) -> None:
    assert advise(compile_route(route)) == []
