"""The two entries, and the sample cases of the language as a whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.edges.routes import JSON_BODY, TWIN, message, mistakes, value

from fairlead_edge.routes import compiler
from fairlead_edge.routes.compiler import (
    ERRORS_MAX,
    compile_condition,
    compile_route,
    evaluate_condition,
)
from fairlead_edge.routes.errors import Invalid
from fairlead_edge.routes.message import RoutedMessage
from fairlead_edge.routes.parser import parse_route

CASES = json.loads((Path(__file__).parent / "cases.json").read_text())


def case_message(name: str) -> RoutedMessage:
    """One of the sample messages, with the body in the encoding that it names, if that is supported."""
    case: dict[str, Any] = CASES["messages"][name]
    encoding = case["systemProperties"].get("contentEncoding", "utf-8").lower()
    body = case.get("body", "")
    raw = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    known = encoding if encoding in ("utf-8", "utf-16", "utf-32") else "utf-8"
    return RoutedMessage(case["properties"], case["systemProperties"], raw.encode(known))


@pytest.mark.parametrize(("condition", "source", "name", "expected"), CASES["conditions"])
def test_conditions_of_the_original(condition: str, source: str, name: str, expected: bool | str) -> None:
    try:
        got: bool | str = evaluate_condition(compile_condition(condition, source), case_message(name))
    except Invalid:
        got = "error"
    assert got == expected
    assert isinstance(got, bool) == isinstance(expected, bool)


@pytest.mark.parametrize(("text", "parses", "valid"), CASES["routes"])
def test_routes_of_the_original(text: str, parses: bool, valid: bool) -> None:
    try:
        compile_route(text)
        good = True
    except Invalid:
        good = False
    try:
        parse_route(text)
        shaped = True
    except Invalid:
        shaped = False
    assert (shaped, good) == (parses, valid)


def test_a_route_matches_by_source_and_condition() -> None:
    route = compile_route("FROM /messages/modules/a WHERE kind = 'x' INTO $upstream")
    assert route.matches("/messages/modules/a/outputs/o", message({"kind": "x"}))
    assert not route.matches("/messages/modules/b", message({"kind": "x"}))
    assert not route.matches("/messages/modules/a", message({"kind": "y"}))
    assert not route.matches("/messages/modules/a", message())


@pytest.mark.parametrize("condition", ["", "  \n", "/* nothing */"])
def test_an_empty_condition_is_undefined(condition: str) -> None:
    assert value(condition) == "undefined"


def test_every_mistake_of_a_route_is_reported_at_once() -> None:
    with pytest.raises(Invalid) as refused:
        compile_route("FROM /messages/*\nWHERE a > 1 AND nope(b)\nINTO $cloud")
    assert [(error.line, error.column) for error in refused.value.errors] == [(2, 9), (2, 17), (3, 6)]


def test_a_route_too_long_is_refused_before_it_is_read() -> None:
    long = "a" * (compiler.TEXT_CHARS_MAX + 1)
    (error,) = mistakes(long)
    assert str(compiler.TEXT_CHARS_MAX) in error.message
    with pytest.raises(Invalid):
        compile_route(long)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("$body.s <> '100'", True),  # an ISO date is a text like any other
        ("true AND $body.ok", True),  # a body value may stand on either side
        ("is_null($body.temp)", False),
        ("is_null($body.nil)", True),
        ("$body.temp < 'abc'", "undefined"),  # two types have no order
        ("'abc' > $body.temp", "undefined"),
        ("- $body.temp = -75", True),
        ("$body.temp % 10 = 5", True),
        ("$body.temp!=75", False),
        ("as_number('1,000') = 1000", "undefined"),
    ],
)
def test_accidents_of_the_original_are_not_copied(condition: str, expected: bool | str) -> None:
    """Where the original has a quirk, the plain reading of the language counts."""
    body = {"s": "2017-03-09T00:00:00.000Z", "ok": True, "temp": 75, "nil": None}
    assert value(condition, message(body=body)) == expected


@pytest.mark.parametrize("condition", ["unit = 'x' junk", "3 $ 4", "true true", "true)", "true,", "true INTO x"])
def test_text_after_a_complete_condition_is_an_error(condition: str) -> None:
    assert mistakes(condition)


@pytest.mark.parametrize(
    "text",
    [
        "FROM /messages/* INTO $upstream garbage",
        "FROM /messages/* INTO $upstream WHERE a = 'b'",
        "FROM /messages/* INTO $upstream;",
        "FROM /messages/* INTO BrokeredEndpoint('/modules/m/inputs/i') x",
        "",
        "   ",
    ],
)
def test_text_after_a_complete_route_is_an_error(text: str) -> None:
    with pytest.raises(Invalid):
        compile_route(text)


@pytest.mark.parametrize("segment", ["$edgeHub", "42", "from", "true", "into-x", "a-b", "temp*"])
def test_a_segment_may_be_any_name(segment: str) -> None:
    route = compile_route(f"FROM /messages/modules/{segment}/* INTO $upstream")
    assert route.source.text == f"/messages/modules/{segment}/*"


# ---- compiling: names and where they look, functions of the twin, and mistakes innermost first -----------------------


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("Unit = 'x' AND uNIT = 'x'", True),
        ("$origin = 'sys'", True),
        ("{$origin} = 'sys'", True),
        ("{ $ORIGIN } = 'sys'", True),
        ("$both = 'application'", True),
        ("{$both} = 'system'", True),
        ("is_defined(origin)", False),
        ("is_defined($unit)", False),
        ("$body = 'raw'", True),
        ("$body.a.b[1] = 2", True),
        ("$BODY.a.b[1] = 2", True),
        ("is_null($body.A.b[1])", True),
        ("is_null($body.a.b[9])", True),
        ("is_null($body.a.b.c)", True),
        ("$body.a.c = 'from the property'", True),
        ("{$body.a.c} = 3", True),
    ],
)
def test_where_names_look(condition: str, expected: bool) -> None:
    of = message(
        {"UNIT": "x", "$both": "application", "$body.a.c": "from the property"},
        system={**JSON_BODY, "Origin": "sys", "both": "system", "body": "raw"},
        body={"a": {"b": [1, 2], "c": 3}},
    )
    assert value(condition, of) is expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("properties.reported.site", True),
        ("properties.reported.site.town", True),
        ("Properties.Reported.site.town", True),
        ("properties.reported.list", True),
        ("properties.reported.site.street", False),
        ("properties.reported.removed", False),
        ("properties.desired.site", False),
        ("tags.zone", True),
        ("properties.reported.$version", True),
    ],
)
def test_twin_change_includes(path: str, expected: bool) -> None:
    """Objects and arrays count as included; a null means that the property was removed."""
    changed = {"site": {"town": "x"}, "list": [1], "removed": None, "$version": 4}
    of = message(body={"properties": {"reported": changed}, "tags": {"zone": 1}})
    assert value(f"twin_change_includes({path})", of, source=TWIN) is expected


def test_twin_change_includes_of_an_unreadable_body() -> None:
    assert value("twin_change_includes(tags.a)", message(system={}), source=TWIN) == "undefined"


@pytest.mark.parametrize(
    "condition",
    [
        "twin_change_includes()",
        "twin_change_includes(tags.a, tags.b)",
        "twin_change_includes('tags.a')",
        "twin_change_includes(tags)",
        "twin_change_includes(tags.)",
        "twin_change_includes(tags.a[0])",
        "twin_change_includes(properties.reported.1)",
        "twin_change_includes($body.a)",
        "twin_change_includes(upper(tags.a))",
    ],
)
def test_twin_paths_that_are_none(condition: str) -> None:
    assert mistakes(condition, source=TWIN)


@pytest.mark.parametrize("source", ["/messages", "/messages/*", "/*"])
def test_twin_functions_need_a_twin_source(source: str) -> None:
    (error,) = mistakes("twin_change_includes(tags.a)", source=source)
    assert "/twinChangeNotifications" in error.message
    assert mistakes("twin_change_includes(tags.a)", source="/twinchangenotifications/*") == []


@pytest.mark.parametrize(
    ("condition", "columns"),
    [
        ("5 + '6' = 9", [3, 9]),
        ("as_number(true) = true", [1, 17]),
        ("mess(true) = true", [1, 12]),
        ("'a' + 'b' + 'c' = 5", [5, 11, 17]),
        ("a AND 'b' AND true", [3]),
        ("not a", [1]),
        ("- a = 3", [1, 5]),
        ("$body..x = 1", [1, 10]),
        ("$body. = 1", [1, 8]),
        ("length(5) > 'x' OR nope()", [1, 11, 20]),
    ],
)
def test_mistakes_come_innermost_first(condition: str, columns: list[int]) -> None:
    found = mistakes(condition)
    assert [error.column for error in found][: len(columns)] == columns


def test_a_failed_chain_is_reported_once_for_each_operator() -> None:
    """Three wrong operators are three mistakes; the third says that it follows from the second."""
    found = mistakes("1 + 'a' - 'b'")
    assert len(found) == 2
    assert "nothing valid (see the other mistake)" in found[1].message


def test_the_number_of_reported_mistakes_is_bounded() -> None:
    assert len(mistakes(" AND ".join(["1 + 'a' = 2"] * 100))) == ERRORS_MAX


# ---- suggestions: what was probably meant ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("temp > 100", "but temp is always text and 100 is a number; did you mean as_number(temp)?"),
        ("100 < $temp", "did you mean as_number($temp)?"),
        ("temp + 1 = 2", "+ needs numbers, but temp is always text and 1 is a number; did you mean as_number(temp)?"),
        ("flag = true", "did you mean 'true' in quotes?"),
        ("flag = null", "did you mean is_null(flag)?"),
        ("flag = undefined", "did you mean is_defined(flag)?"),
        ("5 = '5'", "did you mean 5 without quotes?"),
        ("5 + ' 6 ' = 11", "did you mean 6 without quotes?"),
        ("5 = 'five'", "but 5 is a number and 'five' is text"),
        (
            "a = 'x' || b = 'y'",
            "but the left side is true or false and 'y' is text;"
            " || joins texts and comparisons do not chain: did you mean AND or OR?",
        ),
        ("true || false", "did you mean OR?"),
        ("temp > 8 || a < 2", "|| joins texts, but 8 is a number and a is always text; did you mean OR?"),
        ("$boddy.temp > 8", "$boddy.temp is always text and 8 is a number; did you mean $body.temp?"),
        ("body.temp + 1 > 8", "did you mean $body.temp?"),
        ("$Boddy.on = true", "did you mean $body.on?"),
        ("not $bdy.on", "did you mean $body.on?"),
        ("$connectionDeviceId.a > 8", "did you mean as_number($connectionDeviceId.a)?"),
        ("not a = 'b'", "NOT binds tighter than a comparison: did you mean NOT (...)?"),
        ("- temp = 5", "- needs a number, has the property temp (always text); did you mean as_number(temp)?"),
        ("-temp = 5", "did you mean - temp with a blank?"),
        ("abs(temp) > 5", "expected abs(number), not abs of the property temp (always text); did you mean as_number("),
        ("concat('a') = 'a'", "expected concat(text, text, ...), not concat of 'a'"),
        ("length() = 5", "expected length(text), not length of nothing"),
        ("substring('a', 'b') = 'x'", "expected substring(text, start) or substring(text, start, length)"),
        ("lenght('a') = 1", "unknown function lenght; did you mean length?"),
        ("xyzzy('a') = 1", "unknown function xyzzy"),
        ("a AND true", "AND needs true or false on both sides, but a is always text and the right side is true"),
        ("$body.[0] = 1", "not a path into the body: a name is missing"),
        ("$body.a.0 = 1", "an array element is written name[0]"),
    ],
)
def test_suggestions(condition: str, said: str) -> None:
    assert said in mistakes(condition)[0].message


def test_long_names_cost_no_time() -> None:
    """A function name of sixty thousand characters gets an answer at once, without a suggestion."""
    (error,) = mistakes("x" * 60_000 + "()")
    assert error.message.startswith("unknown function")
