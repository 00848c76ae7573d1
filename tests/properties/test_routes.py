"""The route language against an interpreter of its own, and against text no person would write.

The reference below knows nothing of scanner, parser or closures: it draws a tree of one type, writes it as text with as
many or as few parentheses and blanks as it likes, and works out the answer by the rules of the language alone.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.edges.routes import message

from fairlead_edge.routes.compiler import compile_condition, compile_route, evaluate_condition
from fairlead_edge.routes.errors import Invalid, caret
from fairlead_edge.routes.explain import advise, reasons
from fairlead_edge.routes.message import RoutedMessage
from fairlead_edge.routes.tokens import tokenize_condition, tokenize_route

UNDEF = "undefined"
PROPERTIES = {"unit": "motor7", "qty": "3", "blank": None, "word": "zz"}
BODY = {"n": 5, "s": "motor7", "t": True, "nil": None, "list": [1, 2]}
MESSAGE = message(PROPERTIES, body=BODY)


@dataclass(frozen=True)
class Tree:
    """Text, how tightly it binds (larger is tighter), and the value; a number that is undefined is "undefined"."""

    text: str
    rank: int
    value: Any


OR, AND, EQUALITY, ORDER, SUM, PRODUCT, PREFIX, PRIMARY = range(1, 9)


def leaf(text: str, value: Any) -> Tree:
    return Tree(text, PRIMARY, value)


def inside(tree: Tree, rank: int) -> str:
    """The text, in parentheses where something looser would fall apart."""
    return tree.text if tree.rank >= rank else f"({tree.text})"


def infix(operator: str, rank: int, left: Tree, right: Tree, value: Any) -> Tree:
    """Left-associative: the right side must bind tighter."""
    return Tree(f"{inside(left, rank)} {operator} {inside(right, rank + 1)}", rank, value)


NUMBER_LEAVES = st.one_of(
    st.integers(0, 9).map(lambda n: leaf(str(n), float(n))),
    st.sampled_from([leaf("0x1F", 31.0), leaf("1.5e1", 15.0), leaf("-2", -2.0), leaf("as_number(qty)", 3.0)]),
    st.sampled_from(
        [leaf("as_number(unit)", UNDEF), leaf("as_number(absent)", UNDEF), leaf("as_number($body.n)", 5.0)]
    ),
)
TEXT_LEAVES = st.sampled_from(
    [
        leaf("'motor7'", "motor7"),
        leaf('"it\'s"', "it's"),
        leaf("''", ""),
        leaf("unit", "motor7"),
        leaf("UNIT", "motor7"),
        leaf("qty", "3"),
        leaf("absent", UNDEF),
        leaf("blank", None),
    ]
)
BOOL_LEAVES = st.sampled_from([leaf("true", True), leaf("false", False), leaf("is_defined(absent)", False)])


JSON_NULL = ("null out of a body",)
DYNAMIC_LEAVES = st.sampled_from(
    [
        leaf("$body.n", 5.0),
        leaf("{$BODY.n}", 5.0),
        leaf("$body.s", "motor7"),
        leaf("$body.t", True),
        leaf("$body.nil", JSON_NULL),
        leaf("$body.nowhere.x", JSON_NULL),
        leaf("$body.list", UNDEF),
        leaf("$body.list[1]", 2.0),
    ]
)


def number(value: float) -> Any:
    return UNDEF if math.isnan(value) else value


def arithmetic(operator: str, left: Any, right: Any) -> Any:
    if UNDEF in (left, right):
        return UNDEF
    match operator:
        case "+":
            return number(left + right)
        case "-":
            return number(left - right)
        case "*":
            return number(left * right)
        case _:
            return UNDEF if right == 0 else number(math.fmod(left, right)) if math.isfinite(left) else UNDEF


def compare(operator: str, left: Any, right: Any) -> Any:
    if UNDEF in (left, right) or None in (left, right):
        return UNDEF
    return {
        "=": left == right,
        "<>": left != right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[operator]


def all_of(left: Any, right: Any) -> Any:
    return False if False in (left, right) else UNDEF if UNDEF in (left, right) else True


def any_of(left: Any, right: Any) -> Any:
    return True if True in (left, right) else UNDEF if UNDEF in (left, right) else False


def joined(left: Any, right: Any) -> Any:
    return UNDEF if UNDEF in (left, right) else (left or "") + (right or "")


@st.composite
def numbers(draw: st.DrawFn, depth: int = 2) -> Tree:
    if depth == 0 or draw(st.booleans()):
        return draw(NUMBER_LEAVES)
    kind = draw(st.sampled_from(["+", "-", "*", "%", "minus", "length", "abs"]))
    if kind == "length":
        text = draw(texts(depth - 1))
        return leaf(f"Length({text.text})", float(len(text.value)) if text.value not in (UNDEF, None) else UNDEF)
    left = draw(numbers(depth - 1))
    if kind == "abs":
        return leaf(f"ABS( {left.text} )", abs(left.value) if left.value != UNDEF else UNDEF)
    if kind == "minus":
        return Tree(f"- {inside(left, PREFIX)}", PREFIX, -left.value if left.value != UNDEF else UNDEF)
    right = draw(numbers(depth - 1))
    return infix(kind, SUM if kind in "+-" else PRODUCT, left, right, arithmetic(kind, left.value, right.value))


@st.composite
def texts(draw: st.DrawFn, depth: int = 2) -> Tree:
    if depth == 0 or draw(st.booleans()):
        return draw(TEXT_LEAVES)
    left, right = draw(texts(depth - 1)), draw(texts(depth - 1))
    if draw(st.booleans()):
        return leaf(f"concat({left.text},{right.text})", joined(left.value, right.value))
    return infix("||", SUM, left, right, joined(left.value, right.value))


def compare_body(operator: str, left: Any, right: Any) -> Any:
    """At least one side is a body value: two types are unequal and have no order."""
    if UNDEF in (left, right) or left is None or right is None:
        return UNDEF
    if type(left) is not type(right):
        return {"=": False, "<>": True, "!=": True}.get(operator, UNDEF)
    return compare(operator, 0 if left == JSON_NULL else left, 0 if right == JSON_NULL else right)


@st.composite
def bodies(draw: st.DrawFn, depth: int = 2) -> Tree:
    if depth == 0 or draw(st.booleans()):
        return draw(DYNAMIC_LEAVES)
    left, right = draw(bodies(depth - 1)), draw(st.one_of(bodies(depth - 1), numbers(depth - 1)))
    if draw(st.booleans()):
        return Tree(f"({left.text} ?? {right.text})", PRIMARY, right.value if left.value == UNDEF else left.value)
    if draw(st.booleans()):
        left, right = right, left
    operator = draw(st.sampled_from(["+", "-", "*", "%"]))
    known = type(left.value) is float and type(right.value) is float
    value = arithmetic(operator, left.value, right.value) if known else UNDEF
    return infix(operator, SUM if operator in "+-" else PRODUCT, left, right, value)


@st.composite
def comparisons_with_bodies(draw: st.DrawFn) -> Tree:
    sides = [
        draw(bodies()),
        draw(st.one_of(bodies(), numbers(1), texts(1), BOOL_LEAVES, st.just(leaf("null", JSON_NULL)))),
    ]
    left, right = draw(st.permutations(sides))
    operator = draw(st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="]))
    rank = EQUALITY if operator in ("=", "<>", "!=") else ORDER
    return infix(operator, rank, left, right, compare_body(operator, left.value, right.value))


@st.composite
def looks_at_bodies(draw: st.DrawFn) -> Tree:
    tree = draw(bodies())
    name, answer = draw(
        st.sampled_from(
            [
                ("is_defined", tree.value != UNDEF),
                ("is_null", tree.value == JSON_NULL),
                ("is_bool", tree.value is True),
                ("is_string", tree.value == "motor7"),
                ("is_number", type(tree.value) is float and math.isfinite(tree.value)),
            ]
        )
    )
    return leaf(f"{name}({tree.text})", answer)


@st.composite
def bools(draw: st.DrawFn, depth: int = 3) -> Tree:
    if depth == 0:
        return draw(BOOL_LEAVES)
    kind = draw(
        st.sampled_from(["leaf", "not", "and", "or", "numbers", "texts", "defined", "contains", "body", "test"])
    )
    match kind:
        case "body":
            return draw(comparisons_with_bodies())
        case "test":
            return draw(looks_at_bodies())
        case "leaf":
            return draw(BOOL_LEAVES)
        case "not":
            inner = draw(bools(depth - 1))
            return Tree(f"nOt {inside(inner, PREFIX)}", PREFIX, UNDEF if inner.value == UNDEF else not inner.value)
        case "and" | "or":
            left, right = draw(bools(depth - 1)), draw(bools(depth - 1))
            rank, rule = (AND, all_of) if kind == "and" else (OR, any_of)
            return infix(kind, rank, left, right, rule(left.value, right.value))
        case "defined":
            text = draw(texts(1))
            return leaf(f"is_defined({text.text})", text.value != UNDEF)
        case "contains":
            whole, part = draw(texts(1)), draw(texts(1))
            known = not {UNDEF, None} & {whole.value, part.value}
            return leaf(f"contains({whole.text}, {part.text})", part.value in whole.value if known else UNDEF)
        case _:
            operand = numbers(2) if kind == "numbers" else texts(2)
            left, right = draw(operand), draw(operand)
            operator = draw(st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="]))
            rank = EQUALITY if operator in ("=", "<>", "!=") else ORDER
            return infix(operator, rank, left, right, compare(operator, left.value, right.value))


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(bools())
def test_the_language_means_what_the_reference_says(tree: Tree) -> None:
    """Scanner, precedence, types and three-valued logic together, on well-typed conditions."""
    assert evaluate_condition(compile_condition(tree.text), MESSAGE) == tree.value


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(bools())
def test_a_condition_means_the_same_inside_a_route(tree: Tree) -> None:
    """And the dry run explains exactly what is undefined."""
    route = compile_route(f"FROM /messages/* WHERE {tree.text} INTO $upstream")
    assert evaluate_condition(route.condition, MESSAGE) == tree.value
    assert bool(reasons(route.condition, MESSAGE)) == (tree.value == UNDEF)


WORDS = st.sampled_from(
    """( ) , + - * / % = != <> < > <= >= || ?? { } and OR not true false null undefined unit qty $unit $body.n
    $body.list[0] $body. $body.a..b {$unit} {$body.s} 'a' "b" 'open "open \\ \\u0041 5 -3 0x1F 1e6 .5 abs( length(
    concat( substring( as_number( is_null( twin_change_includes( tags.a properties.reported.x FROM WHERE INTO SELECT
    /messages /* */ $upstream BrokeredEndpoint('/modules/m/inputs/i') @ ; : [ ] a[0] é 😀
    line\nbreak""".split()  # noqa: SIM905
)
NONSENSE = st.one_of(st.lists(WORDS, max_size=25).map(" ".join), st.lists(WORDS, max_size=15).map("".join), st.text())
SYSTEMS = st.sampled_from([None, {}, {"contentType": "application/json", "contentEncoding": "utf-16"}])


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(text=NONSENSE, system=SYSTEMS, raw=st.one_of(st.binary(max_size=40), st.just(b'{"a": {}}')))
def test_no_text_crashes_anything(text: str, system: dict[str, str | None] | None, raw: bytes) -> None:
    """It compiles and gives one of three answers, or says what is wrong at a place inside the text."""
    of = MESSAGE if system is None else RoutedMessage(PROPERTIES, system, raw)
    for source in ("/messages", "/twinChangeNotifications"):
        try:
            condition = compile_condition(text, source)
        except Invalid as invalid:
            check_places(text, invalid)
        else:
            assert evaluate_condition(condition, of) in (True, False, UNDEF)
            assert isinstance(reasons(condition, of), list)
    for whole in (
        text,
        f"FROM {text} INTO $upstream",
        f"FROM /messages WHERE {text} INTO $upstream",
        f"FROM /x INTO {text}",
    ):
        try:
            advise(compile_route(whole))
        except Invalid as invalid:
            check_places(whole, invalid)


def check_places(text: str, invalid: Invalid) -> None:
    lines = text.split("\n")
    assert invalid.errors
    for error in invalid.errors:
        assert error.message
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column < error.end_column <= len(lines[error.line - 1]) + 2
        assert "^" in caret(text, error)


@given(NONSENSE)
def test_tokens_tile_the_text(text: str) -> None:
    """In order, without overlap; between them only white space and comments."""
    for found in (tokenize_condition(text), tokenize_route(text)):
        position = 0
        for token in found:
            assert token.start >= position
            gap = text[position : token.start]
            assert not gap.strip(" \t\r\n") or "/*" in gap
            position = token.end
        assert position == len(text)


@pytest.mark.slow
@given(
    st.dictionaries(st.text(max_size=5), st.one_of(st.none(), st.text(max_size=5)), max_size=3), st.binary(max_size=30)
)
def test_no_message_crashes_a_condition(properties: dict[str, str | None], raw: bytes) -> None:
    """Whatever properties and bodies hold."""
    condition = compile_condition(
        "as_number(a) > 1 OR $body.a = b OR substring(b, as_number(a)) = 'x' OR concat(a, b, $body.a[0]) = '' OR "
        "power($body.a, as_number(b)) % 0 < 5 OR upper(a) || lower(b) <> $body.b ?? false"
    )
    for encoding in ("utf-8", "utf-16", "utf-32"):
        system = {"contentType": "application/json", "contentEncoding": encoding}
        assert evaluate_condition(condition, RoutedMessage(properties, system, raw)) in (True, False, UNDEF)


HARD = {
    "comments": "/**/", "open comments": "/* ", "starred segments": "/*/x", "quotes": "'", "bad escapes": "'a\\q",
    "parentheses": "(", "prefixes": "not ", "or": "a = a or ", "sum": "1 + ", "calls": "length(", "braces": "{",
    "slashes": "//", "name": "x", "dollars": "$", "dots": ".", "digits": "1", "marks": "!=", "mistakes": "1 + 'a' + ",
    "joined": "'' || ", "lines": "\n", "wrong function": "nope(1) and ",
}  # fmt: skip


@pytest.mark.verify
@pytest.mark.parametrize("piece", HARD.values(), ids=HARD.keys())
def test_time_grows_with_length_alone(piece: str) -> None:
    """Thirty thousand characters of the worst we know: a quadratic step would take minutes, not seconds."""
    text = piece * (30_000 // len(piece))
    began = time.process_time()
    for whole in (text, f"FROM {text} INTO $upstream", f"FROM /m WHERE {text} true INTO $upstream"):
        for compile_text in (compile_condition, compile_route):
            try:
                compile_text(whole)
            except Invalid as invalid:
                assert len(invalid.errors) <= 51
    assert time.process_time() - began < 10
