"""The two entries, and the sample cases of the language as a whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.edges.routes import message, mistakes, value

from fairlead_edge.routes import compiler
from fairlead_edge.routes.compiler import compile_condition, compile_route, evaluate_condition
from fairlead_edge.routes.errors import Invalid
from fairlead_edge.routes.message import RoutedMessage
from fairlead_edge.routes.parser import parse_route

CASES = json.loads((Path(__file__).parent / "cases.json").read_text())


def case_message(name: str) -> RoutedMessage:
    """One of the sample messages; an object body in the encoding it names, if that can be used."""
    case: dict[str, Any] = CASES["messages"][name]
    encoding = case["systemProperties"].get("contentEncoding", "utf-8").lower()
    body = case.get("body", "")
    raw = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    known = encoding if encoding in ("utf-8", "utf-16", "utf-32") else "utf-8"
    return RoutedMessage(case["properties"], case["systemProperties"], raw.encode(known))


@pytest.mark.parametrize(("condition", "source", "name", "expected"), CASES["conditions"])
def test_conditions_of_the_original(condition: str, source: str, name: str, expected: bool | str) -> None:
    """What conditions gave, or that they did not compile, in the hub whose language this is."""
    try:
        got: bool | str = evaluate_condition(compile_condition(condition, source), case_message(name))
    except Invalid:
        got = "error"
    assert got == expected
    assert isinstance(got, bool) == isinstance(expected, bool)


@pytest.mark.parametrize(("text", "parses", "valid"), CASES["routes"])
def test_routes_of_the_original(text: str, parses: bool, valid: bool) -> None:
    """Which routes have the right shape, and which of those can run."""
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
    """Only True matches: false and undefined are both no."""
    route = compile_route("FROM /messages/modules/a WHERE kind = 'x' INTO $upstream")
    assert route.matches("/messages/modules/a/outputs/o", message({"kind": "x"}))
    assert not route.matches("/messages/modules/b", message({"kind": "x"}))
    assert not route.matches("/messages/modules/a", message({"kind": "y"}))
    assert not route.matches("/messages/modules/a", message())


def test_without_where_everything_matches() -> None:
    """A missing WHERE is the condition true."""
    assert compile_route("FROM /* INTO $upstream").matches("/messages", message())


@pytest.mark.parametrize("condition", ["", "  \n", "/* nothing */"])
def test_an_empty_condition_is_undefined(condition: str) -> None:
    """Empty is not true."""
    assert value(condition) == "undefined"


def test_every_mistake_of_a_route_is_reported_at_once() -> None:
    """Types in WHERE and the sink, each at its own place in the route's text."""
    with pytest.raises(Invalid) as refused:
        compile_route("FROM /messages/*\nWHERE a > 1 AND nope(b)\nINTO $cloud")
    assert [(error.line, error.column) for error in refused.value.errors] == [(2, 9), (2, 17), (3, 6)]


def test_a_route_too_long_is_refused_before_it_is_read() -> None:
    """The limit has a name and the answer says it."""
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
    """Where the original slipped, the plain reading of the language counts."""
    body = {"s": "2017-03-09T00:00:00.000Z", "ok": True, "temp": 75, "nil": None}
    assert value(condition, message(body=body)) == expected


@pytest.mark.parametrize("condition", ["unit = 'x' junk", "3 $ 4", "true true", "true)", "true,", "true INTO x"])
def test_text_after_a_complete_condition_is_an_error(condition: str) -> None:
    """The original ignores it, and with it half a condition."""
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
    """Also a condition written after INTO, which users meant to count."""
    with pytest.raises(Invalid):
        compile_route(text)


@pytest.mark.parametrize("segment", ["$edgeHub", "42", "from", "true", "into-x", "a-b", "temp*"])
def test_a_segment_may_be_any_name(segment: str) -> None:
    """Also what would be a number, keyword or system property elsewhere."""
    route = compile_route(f"FROM /messages/modules/{segment}/* INTO $upstream")
    assert route.source.text == f"/messages/modules/{segment}/*"
