"""The grammar: what binds tighter, where a mistake is, and how deep is too deep."""

from __future__ import annotations

import pytest
from tests.support.edges.routes import mistakes, value

from fairlead_edge.routes import parser
from fairlead_edge.routes.endpoints import Sink
from fairlead_edge.routes.errors import Invalid
from fairlead_edge.routes.parser import Chain, Literal, parse_condition


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("1 + 2 * 3 = 7", True),
        ("(1 + 2) * 3 = 9", True),
        ("100 / 10 / 5 = 2", True),
        ("- 3 + 5 = 2", True),
        ("-(3) = -3", True),
        ("- - 3 = 3", True),
        ("3 * - 4 = -12", True),
        ("true or true and false", True),
        ("'a' || 'b' = 'ab'", True),
        ("'a' || 'b' < 'b' = true", True),
        ("false ?? true or true", False),
        ("undefined ?? undefined", "undefined"),
    ],
)
def test_precedence(condition: str, expected: bool | str) -> None:
    assert value(condition) == expected


@pytest.mark.parametrize(
    ("condition", "place", "said"),
    [
        ("(5 = 5", (1, 1, 2), "missing closing ')'"),
        ("is_defined(x", (1, 11, 12), "missing closing ')'"),
        ("5 = 5)", (1, 6, 7), "unmatched closing ')'"),
        ("a = 'abc", (1, 5, 9), "unterminated string"),
        ("a = @", (1, 5, 6), "invalid symbol '@'"),
        ("a =", (1, 4, 5), "unexpected end of condition: expected a value"),
        ("a = \n\n  ", (3, 3, 4), "unexpected end of condition"),
        ("a = 'x'\nAND b == 'y'", (2, 7, 9), "'==' is not an operator; use '='"),
        ("a = = 'y'", (1, 5, 6), "expected a value"),
        ("a = 'x' && b = 'y'", (1, 9, 11), "did you mean AND?"),
        ("(a = 'x' && b = 'y')", (1, 10, 12), "did you mean AND?"),
        ("a = 'x' in b", (1, 9, 11), "there is no IN"),
        ("5 -3 = 2", (1, 3, 5), "did you mean - 3 with a blank?"),
        ("from = 'x'", (1, 1, 5), "from is a keyword"),
        ("a[0] = 'x'", (1, 1, 5), "brackets are possible only after $body."),
        ("$a[0] = 'x'", (1, 1, 6), "brackets are possible only after $body."),
        ("{a} = 'x'", (1, 2, 3), "expected $name between the braces"),
        ("{$a = 'x'", (1, 5, 6), "the closing } is missing"),
        ("length('a' 'b')", (1, 12, 15), "expected an operator, a comma or ')'"),
        ("length(,)", (1, 8, 9), "expected a value"),
    ],
)
def test_syntax_errors_name_their_place(condition: str, place: tuple[int, int, int], said: str) -> None:
    (error,) = mistakes(condition)
    assert (error.line, error.column, error.end_column) == place
    assert said in error.message


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("SELECT a FROM /x INTO $upstream", 8, "SELECT *"),
        ("FRM /x INTO $upstream", 1, "a route begins with FROM"),
        ("FROM x INTO $upstream", 6, "expected a source"),
        ("FROM / INTO $upstream", 8, "expected a name or * after the slash"),
        ("FROM /a/ INTO $upstream", 10, "expected a name or * after the slash"),
        ("FROM /a//b INTO $upstream", 9, "expected a name or * after the slash"),
        ("FROM /messages/<NAME> INTO $upstream", 16, "expected a name or * after the slash"),
        ("FROM /a", 8, "unexpected end of route: INTO and a sink are missing"),
        ("FROM /a WHERE b == 'c' INTO $upstream", 17, "'==' is not an operator; use '='"),
        ("FROM /a WHERE b = 'c'", 22, "expected an operator, or INTO"),
        ("FROM /a WHERE b > 8 && c < 2 INTO $upstream", 21, "did you mean AND?"),
        ("FROM /a WHERE b in c INTO $upstream", 17, "there is no IN"),
        ("FROM /a WHERE INTO $upstream", 15, "a value is missing"),
        ("FROM /a INTO upstream", 22, "did you mean $upstream?"),
        ("FROM /a INTO '/m'", 14, "expected $upstream or BrokeredEndpoint"),
        ("FROM /a INTO BrokeredEndpoint(/m)", 31, "expected a quoted address"),
        ("FROM /a INTO BrokeredEndpoint('/modules/a/inputs/b'", 52, "the closing ) is missing"),
        ("FROM /a INTO $upstream WHERE a = 'b'", 24, "WHERE comes before INTO"),
    ],
)
def test_route_errors_name_their_place(text: str, column: int, said: str) -> None:
    with pytest.raises(Invalid) as refused:
        parser.parse_route(text)
    (error,) = refused.value.errors
    assert (error.line, error.column) == (1, column)
    assert said in error.message


def test_the_sink_is_checked_after_the_shape() -> None:
    parsed = parser.parse_route("FROM /a INTO $cloud")
    assert parsed.sink is None
    assert "did you mean $upstream?" in parsed.errors[0].message
    good = parser.parse_route("FROM /a INTO $UpStream")
    assert (good.sink, good.errors) == (Sink(), [])
    named = parser.parse_route("FROM /a INTO Endpoint('/modules/a/inputs/b')")
    assert "did you mean BrokeredEndpoint?" in named.errors[0].message
    address = parser.parse_route("FROM /a INTO BrokeredEndpoint('/modules/a')")
    assert (address.errors[0].column, address.errors[0].end_column) == (31, 43)


@pytest.mark.parametrize(
    ("condition", "places"),
    [
        ("(5 + 33 = 38", [(1, 2)]),
        ("5 + (33 = 38", [(5, 6), (3, 4)]),
        ("((5 = 5", [(1, 2)]),
        ("(5 = (5", [(1, 2)]),
        ("(5 + '6' = 9", [(1, 2)]),
        ("length(('a' = 5", [(7, 8)]),
        ("5 = 'abc", [(5, 9), (3, 4)]),
        ("length('abc", [(8, 12)]),
        ("(a = 'abc", [(6, 10)]),
        ("nope(5) = (", [(12, 13)]),
    ],
)
def test_an_end_that_comes_too_early(condition: str, places: list[tuple[int, int]]) -> None:
    """Reports the outermost open parenthesis or the open quote, and type errors around it."""
    assert [(error.column, error.end_column) for error in mistakes(condition)] == places


def test_a_parenthesis_that_is_open_before_into() -> None:
    """In a route the condition ends at INTO; the sink is still checked."""
    parsed = parser.parse_route("FROM /a WHERE (b = 'c' INTO $cloud")
    assert [(error.column, error.message) for error in parsed.errors] == [
        (15, "missing closing ')'"),
        (29, "unknown sink '$cloud'; did you mean $upstream?"),
    ]


@pytest.mark.parametrize("text", ["{0}true{1}", "{0}length('a'){1} = 1"])
def test_depth_is_bounded(text: str) -> None:
    deep = parser.NESTING_MAX - text.count("length(")
    assert mistakes(text.format("(" * deep, ")" * deep)) == []
    (error,) = mistakes(text.format("(" * (deep + 1), ")" * (deep + 1)))
    assert f"nested more than {parser.NESTING_MAX} deep" in error.message


def test_prefix_operators_count_as_depth() -> None:
    """A thousand NOTs exceed the limit, but siblings do not add up."""
    assert "nested" in mistakes("not " * 1000 + "true")[0].message
    assert value(" and ".join(["not not true"] * 200)) is True


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["or", "and", "=", "+", "??"])
def test_long_chains_nest_nowhere(operator: str) -> None:
    """Thousands of operands of one precedence exceed neither the stack nor the limit."""
    operand = "1" if operator == "+" else "true"
    condition = f" {operator} ".join([operand] * 5000)
    node = parser.parse_condition(condition, [])
    assert isinstance(node, Chain) and len(node.steps) == 4999
    assert value(condition + (" = 5000" if operator == "+" else "")) is True


@pytest.mark.parametrize(
    ("text", "expected"),
    [(r"\'", "'"), (r"\"", '"'), (r"\\", "\\"), (r"A", "A"), (r"\\u0041", r"\u0041"), ("plain", "plain")],
)
def test_escapes(text: str, expected: str) -> None:
    assert parser.unescape(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("007", 7.0), ("0x10", 16.0), ("-2.5e1", -25.0), ("10e1000", float("inf")), ("0x" + "f" * 400, float("inf"))],
)
def test_numbers_are_doubles(text: str, expected: float) -> None:
    assert parser.number(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "FROM /messages/modules/m/* WHERE tmep >>> 1 INTO $upstream",
        "from /messages/modules/m WHERE (a = 1 INTO $upstream",
        "FROM /messages/modules/m INTO $upstreem",
        "SELECT * FROM /messages/modules/m/*",
        "FROM /messages/modules/m IN $upstream",
    ],
)
def test_the_source_of_a_route_is_read_whatever_is_wrong_behind_it(text: str) -> None:
    found = parser.parse_source(text)
    assert found is not None and found.prefix == "/messages/modules/m/"


@pytest.mark.parametrize(
    "text", ["", "FORM /messages/* INTO $upstream", "FROM INTO $upstream", "SELECT a FROM /messages"]
)
def test_where_not_even_the_source_can_be_read_there_is_none(text: str) -> None:
    assert parser.parse_source(text) is None


def test_two_nodes_are_never_equal() -> None:
    first, second = parse_condition("1", []), parse_condition("1", [])
    assert isinstance(first, Literal) and first != second
