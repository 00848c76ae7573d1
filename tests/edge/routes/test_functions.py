"""The built-in functions, one by one."""

from __future__ import annotations

import math

import pytest
from tests.support.edges.routes import message, mistakes, value

from fairlead_edge.routes import functions
from fairlead_edge.routes.values import UNDEFINED

PROPERTIES = {"text": "motor7", "three": "3", "blank": None, "junk": "x1"}


def answer(condition: str) -> bool | str:
    return value(condition, message(PROPERTIES, body={"n": 9, "s": "abc", "nil": None, "ok": True, "list": []}))


@pytest.mark.parametrize(
    "condition",
    [
        "abs(-3) = 3",
        "exp(1000) = 1 / 0",
        "power(2, 10) = 1024",
        "power(10, 400) = 1 / 0",
        "power(-10, 401) = -1 / 0",
        "power(0, -1) = 1 / 0",
        "square(-4) = 16",
        "ceiling(-2.1) = -2",
        "floor(-2.1) = -3",
        "floor(1 / 0) = 1 / 0",
        "sign(-7) = -1",
        "sign(0) = 0",
        "6 / 3 = 2",
        "-1 / 0 = - (1 / 0)",
        "1 / -0.0 = -1 / 0",
        "not is_defined(0 / 0)",
        "not is_defined(1 % 0)",
        "not is_defined((1 / 0) % 2)",
        "-7 % 3 = -1",
        "7 % -3 = 1",
        "sqrt(16) = 4",
        "sqrt($body.n) = 3",
        "not is_defined(sqrt(-4))",
        "not is_defined(power(-8, 0.5))",
        "not is_defined(power(0 / 0, 0))",
        "not is_defined(floor(0 / 0))",
        "not is_defined(sign(0 / 0))",
        "not is_defined(abs($body.s))",
        "ABS(-1) = 1",
    ],
)
def test_numbers(condition: str) -> None:
    assert answer(condition) is True


@pytest.mark.parametrize(
    "condition",
    [
        "length(text) = 6",
        "lower('ABC') = 'abc'",
        "upper('abc') = 'ABC'",
        "concat(text, '-', three) = 'motor7-3'",
        "concat('a', blank, 'b') = 'ab'",
        "concat(blank, blank) = ''",
        "concat(text, three, text, three, '!') = 'motor73motor73!'",
        "concat($body.s, 'd') = 'abcd'",
        "substring('hello', 1) = 'ello'",
        "substring('hello', 1, 3) = 'ell'",
        "substring('hello', 5) = ''",
        "substring('hello', 1.9) = 'ello'",
        "index_of('abc', 'x') = -1",
        "index_of('abc', '') = 0",
        "starts_with(text, 'mot')",
        "ends_with(text, 'r7')",
        "contains(text, 'tor')",
        "contains(text, '')",
    ],
)
def test_texts(condition: str) -> None:
    assert answer(condition) is True


@pytest.mark.parametrize(
    "call",
    [
        "length(absent)", "length(blank)", "length($body.n)", "lower(blank)", "upper(absent)", "concat('a', absent)",
        "concat(blank, absent)",
        "concat('a', $body.nil)", "concat('a', $body.n)", "substring('abc', 4)", "substring('abc', -1)",
        "substring('abc', 3, 0)", "substring('abc', 1, 3)", "substring('abc', 1, -1)", "substring('abc', 0 / 0)",
        "substring('abc', 1, 1 / 0)", "substring(blank, 0)", "index_of(blank, 'a')", "index_of('a', absent)",
        "starts_with(absent, 'a')", "ends_with('a', blank)", "contains(absent, absent)", "as_number(text)",
        "as_number(blank)", "as_number(absent)", "as_number($body.ok)", "as_number('')", "as_number('1 2')",
        "as_number('1_000')", "as_number('nan')", "as_number('infinity')", "as_number('0x10')", "as_number('٣')",
        "as_number('1,000')", "as_number('$5')", "as_number('(5)')", "as_number('5-')", "as_number('.')",
    ],
)  # fmt: skip
def test_no_answer_is_undefined(call: str) -> None:
    assert answer(f"is_defined({call})") is False


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3", 3),
        (" 3 ", 3),
        ("+3", 3),
        ("-3.5", -3.5),
        (".5", 0.5),
        ("5.", 5),
        ("1e3", 1000),
        ("1E-3", 0.001),
        ("007", 7),
    ],
)
def test_as_number(text: str, number: float) -> None:
    assert functions.number_of(text) == number


def test_as_number_of_a_number_is_that_number() -> None:
    assert answer("as_number($body.n) = 9 AND as_number(as_number(three)) = 3 AND as_number(4) = 4") is True


def test_as_number_takes_linear_time() -> None:
    assert functions.number_of("1" * 262_144) == math.inf
    assert math.isnan(functions.number_of("1" * 262_144 + "x"))


@pytest.mark.parametrize(
    ("argument", "true_for"),
    [
        ("'a'", {"is_string", "is_defined"}),
        ("1", {"is_number", "is_defined"}),
        ("true", {"is_bool", "is_defined"}),
        ("null", {"is_null", "is_defined"}),
        ("undefined", set()),
        ("text", {"is_string", "is_defined"}),
        ("blank", {"is_null", "is_defined"}),
        ("absent", set()),
        ("as_number(three)", {"is_number", "is_defined"}),
        ("as_number(junk)", set()),
        ("1 / 0", {"is_defined"}),
        ("0 / 0", set()),
        ("absent = 'x'", set()),
        ("text = 'x'", {"is_bool", "is_defined"}),
        ("$body.n", {"is_number", "is_defined"}),
        ("$body.s", {"is_string", "is_defined"}),
        ("$body.ok", {"is_bool", "is_defined"}),
        ("$body.nil", {"is_null", "is_defined"}),
        ("$body.missing", {"is_null", "is_defined"}),
        ("$body.list", set()),
    ],
)
def test_type_tests_take_anything_and_always_answer(argument: str, true_for: set[str]) -> None:
    for name in functions.TYPE_TESTS:
        assert answer(f"{name}({argument})") is (name in true_for), name


@pytest.mark.parametrize(
    "call",
    ["abs()", "abs(1, 2)", "abs('1')", "abs(null)", "abs(undefined)", "abs(true)", "power(1)", "power(1, 2, 3)",
     "concat('a')", "concat('a', 1)", "length(1)", "substring('a')", "substring('a', 'b')", "substring('a', 1, 2, 3)",
     "is_null()", "is_null(1, 2)", "as_number()", "as_number(true)", "as_number(null)", "nope(1)"],
)  # fmt: skip
def test_wrong_arguments_do_not_compile(call: str) -> None:
    (error, *_) = mistakes(f"is_defined({call})")
    assert (error.column, error.end_column) == (12, 12 + call.index("("))


def test_concat_is_bounded() -> None:
    long = "x" * (functions.TEXT_CHARS_MAX // 2)
    assert functions.concat(long, long) == long + long
    assert functions.concat(long, long, "x") is UNDEFINED
    of = message({"long": long})
    assert value("is_defined(long || long)", of) is True
    assert value("is_defined(long || long || long)", of) is False
