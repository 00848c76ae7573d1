"""The scanner: longest match, names that swallow operators, comments, and slashes that are none."""

from __future__ import annotations

import pytest

from fairlead_edge.routes import tokens
from fairlead_edge.routes.tokens import tokenize_condition, tokenize_route


def kinds(text: str) -> list[tuple[str, str]]:
    return [(token.kind, token.text) for token in tokenize_condition(text)][:-1]


@pytest.mark.parametrize(
    "name",
    ["a-b", "a*2", "a||b", "x.y.z", "it's", "a!b", "%", "&&", "$", "|", "é", "a'b'c", "--3", "3abc", "e5", "5."][:],
)
def test_names_hold_nearly_everything(name: str) -> None:
    expected = {"%": "%"}.get(name, tokens.NAME)
    assert kinds(name) == [(expected, name)]


@pytest.mark.parametrize("number", ["0", "007", "-3", "0x1F", "0XaB", "1.5", ".5", "-.5", "1e6", "1E-6", "2.5e+3"])
def test_numbers(number: str) -> None:
    assert kinds(number) == [(tokens.NUMBER, number)]


@pytest.mark.parametrize("text", ["'abc'", '"abc"', "'a b'", r"'it\'s'", r'"\\"', r"'A'", "''", '"a\nb"'])
def test_strings(text: str) -> None:
    assert kinds(text) == [(tokens.STRING, text)]


def test_a_string_without_its_end() -> None:
    assert kinds("'abc def") == [(tokens.UNTERMINATED, "'abc def")]
    assert kinds(r'"a\q"')[0] == (tokens.UNTERMINATED, '"a')


def test_the_longest_match_wins() -> None:
    assert kinds("'a'||'b'") == [(tokens.NAME, "'a'||'b'")]
    assert kinds("'a' || 'b'") == [(tokens.STRING, "'a'"), ("||", "||"), (tokens.STRING, "'b'")]


def test_operators_with_and_without_blanks() -> None:
    assert [kind for kind, _ in kinds("a<=b<>c/(d,e)??f>=g")] == [
        "name", "<=", "name", "!=", "name", "/", "(", "name", ",", "name", ")", "??", "name", ">=", "name"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("unit!='x'", [tokens.NAME, "!=", tokens.STRING]),
        ("a != b", [tokens.NAME, "!=", tokens.NAME]),
        ("5!=6", [tokens.NUMBER, "!=", tokens.NUMBER]),
        ("$body.a!=6", [tokens.SYSTEM, "!=", tokens.NUMBER]),
        ("$body.Hola!.x = 6", [tokens.SYSTEM, "=", tokens.NUMBER]),
        ("!=", ["!="]),
    ],
)
def test_an_exclamation_mark_before_equals_is_an_operator(text: str, expected: list[str]) -> None:
    """In the original it belongs to the name, and the comparison is never true."""
    assert [kind for kind, _ in kinds(text)] == expected


def test_keywords_in_any_case_and_literals_in_lower_case() -> None:
    assert [kind for kind, _ in kinds("aNd Or NOT true TRUE null Null")] == [
        "AND", "OR", "NOT", "true", tokens.NAME, "null", tokens.NAME
    ]  # fmt: skip


def test_comments_are_skipped_and_an_open_one_is_none() -> None:
    """Without its end it is a division."""
    assert kinds("/* a */ x /**/ y") == [(tokens.NAME, "x"), (tokens.NAME, "y")]
    assert kinds("6 /* 2")[1][0] == "/"


def test_positions_are_those_of_the_text() -> None:
    found = tokenize_condition("  ab  = 'c'")
    assert [(token.start, token.end) for token in found] == [(2, 4), (6, 7), (8, 11), (11, 11)]


@pytest.mark.parametrize(
    ("source", "segments"),
    [
        ("/messages/*", ["messages", "*"]),
        ("/*/x/*/y/*", ["*", "x", "*", "y", "*"]),
        ("/messages/* /* a comment */", ["messages", "*"]),
        ("/messages /* a comment */", ["messages"]),
        ("/* a comment */ /messages", ["messages"]),
        ("/ messages / *", ["messages", "*"]),
        ("/messages/from/into/42/$x", ["messages", "from", "into", "42", "$x"]),
    ],
)
def test_sources_are_not_swallowed_by_comments(source: str, segments: list[str]) -> None:
    """A starred segment looks like the beginning of a comment; the original takes it for one."""
    found = tokenize_route(f"FROM {source} INTO BrokeredEndpoint('/a/*/b/c')")
    assert [token.text for token in found if token.kind == tokens.SEGMENT] == segments
    assert [token.kind for token in found][-6:] == ["INTO", "name", "(", "string", ")", "end"]
