"""The built-in functions: parameters, result, and implementation.

Numbers arrive as floats with NaN for undefined.  Texts arrive as str, as None for a property that is present but null,
or as UNDEFINED; a function of texts runs only when each is a str, `concat` alone takes a null as empty.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from fairlead_edge.routes.values import NAN, UNDEFINED, Type, Undefined, Value

# Possessive, so that a long text that is no number is not tried again at each of its digits.
_NUMBER_TEXT = re.compile(r"\s*+[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?\s*+", re.ASCII)

TEXT_CHARS_MAX: Final = 1024 * 1024
"""The longest result of `concat` and `||`: a short condition must not turn a message into gigabytes."""
TWIN_CHANGE_INCLUDES: Final = "twin_change_includes"
"""The compiler handles this function itself, because its argument is a path, not a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One built-in: `parameters` are the types it needs; the last `optional` may be absent, `rest` may be repeated."""

    name: str
    parameters: tuple[Type, ...]
    result: Type
    run: Callable[..., Any]
    optional: int = 0
    rest: Type | None = None
    usage: str

    def parameter(self, index: int) -> Type | None:
        """The type of argument number `index` (from 0); None: too many arguments."""
        return self.parameters[index] if index < len(self.parameters) else self.rest

    def takes(self, count: int) -> bool:
        """Whether it may be called with this many arguments."""
        least, most = len(self.parameters) - self.optional, len(self.parameters)
        return least <= count and (count <= most or self.rest is not None)


# ── numbers ──


def divide(left: float, right: float) -> float:
    """As IEEE 754: 1/0 is infinite, 0/0 undefined."""
    if right:
        return left / right
    if left == 0 or left != left or right != right:
        return NAN
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def modulo(left: float, right: float) -> float:
    """The remainder with the sign of the left side; undefined for a right side of zero."""
    try:
        return math.fmod(left, right)
    except ValueError:
        return NAN


def power(base: float, exponent: float) -> float:
    """Undefined if the result is not real, infinite if it is too large."""
    if base != base or exponent != exponent:
        return NAN
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:
        return math.inf if base == 0 else NAN


def exponential(value: float) -> float:
    """e to the value, infinite where it is too large."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def square_root(value: float) -> float:
    """Undefined below zero."""
    return math.sqrt(value) if value >= 0 else NAN


def floor(value: float) -> float:
    """The integer below; infinity and undefined are unchanged."""
    return float(math.floor(value)) if math.isfinite(value) else value


def ceiling(value: float) -> float:
    """The integer above; infinity and undefined are unchanged."""
    return float(math.ceil(value)) if math.isfinite(value) else value


def sign(value: float) -> float:
    """-1, 0 or 1."""
    return value if value != value else float((value > 0) - (value < 0))


# ── texts ──


def number_of(value: Value) -> float:
    """The number in a text (optionally with blanks around it, a sign, a point and an exponent), or a number
    unchanged."""
    if type(value) is str:
        return float(value) if _NUMBER_TEXT.fullmatch(value) else NAN
    return value if type(value) is float else NAN


def concat(*parts: Any) -> str | Undefined:
    """The parts joined; a null property counts as empty; an undefined part or too long a result gives undefined."""
    if UNDEFINED in parts:
        return UNDEFINED
    texts = [part for part in parts if part is not None]
    return "".join(texts) if sum(map(len, texts)) <= TEXT_CHARS_MAX else UNDEFINED


def substring(text: Any, start: float, length: float | None = None) -> str | Undefined:
    """Undefined if out of range; without a length, the start may be just past the end."""
    if type(text) is not str or not math.isfinite(start):
        return UNDEFINED
    first = int(start)
    if length is None:
        return text[first:] if 0 <= first <= len(text) else UNDEFINED
    if not math.isfinite(length):
        return UNDEFINED
    last = first + int(length)
    return text[first:last] if 0 <= first < len(text) and first <= last <= len(text) else UNDEFINED


def _text(function: Callable[[str], Any], otherwise: Any) -> Callable[[Any], Any]:
    return lambda text: function(text) if type(text) is str else otherwise


def _texts(function: Callable[[str, str], Any], otherwise: Any) -> Callable[[Any, Any], Any]:
    return lambda text, part: function(text, part) if type(text) is str and type(part) is str else otherwise


def _math(name: str, run: Callable[..., float], *, arguments: tuple[str, ...] = ("number",)) -> Function:
    return Function(
        name=name,
        parameters=(Type.NUMBER,) * len(arguments),
        result=Type.NUMBER,
        run=run,
        usage=f"{name}({', '.join(arguments)})",
    )


def _of_text(name: str, run: Callable[..., Any], result: Type, *, arguments: tuple[str, ...] = ("text",)) -> Function:
    return Function(
        name=name,
        parameters=(Type.STRING,) * len(arguments),
        result=result,
        run=run,
        usage=f"{name}({', '.join(arguments)})",
    )


_PAIR = ("text", "part")

BUILT_IN: Final[dict[str, Function]] = {
    function.name: function
    for function in (
        _math("abs", abs),
        _math("exp", exponential),
        _math("power", power, arguments=("base", "exponent")),
        _math("square", lambda value: value * value),
        _math("ceiling", ceiling),
        _math("floor", floor),
        _math("sign", sign),
        _math("sqrt", square_root),
        _of_text("length", _text(lambda text: float(len(text)), NAN), Type.NUMBER),
        _of_text("lower", _text(str.lower, UNDEFINED), Type.STRING),
        _of_text("upper", _text(str.upper, UNDEFINED), Type.STRING),
        _of_text("index_of", _texts(lambda text, part: float(text.find(part)), NAN), Type.NUMBER, arguments=_PAIR),
        _of_text("starts_with", _texts(str.startswith, UNDEFINED), Type.BOOL, arguments=_PAIR),
        _of_text("ends_with", _texts(str.endswith, UNDEFINED), Type.BOOL, arguments=_PAIR),
        _of_text("contains", _texts(lambda text, part: part in text, UNDEFINED), Type.BOOL, arguments=_PAIR),
        Function(
            name="concat",
            parameters=(Type.STRING, Type.STRING),
            rest=Type.STRING,
            result=Type.STRING,
            run=concat,
            usage="concat(text, text, ...)",
        ),
        Function(
            name="substring",
            parameters=(Type.STRING, Type.NUMBER, Type.NUMBER),
            optional=1,
            result=Type.STRING,
            run=substring,
            usage="substring(text, start) or substring(text, start, length)",
        ),
    )
}
"""By lower-case name; functions of one value of any type are in `TYPE_TESTS`."""


# ── tests of types ──

TypeTest = Callable[[Any], Any]


def _always(answer: bool) -> TypeTest:
    return lambda _: answer


def _is_defined(given: Type) -> TypeTest:
    if given is Type.NUMBER:
        return lambda value: value == value
    return _always(False) if given is Type.UNDEFINED else lambda value: value is not UNDEFINED


def _is_null(given: Type) -> TypeTest:
    return (lambda value: value is None) if given in (Type.STRING, Type.DYNAMIC, Type.NULL) else _always(False)


def _is_bool(given: Type) -> TypeTest:
    return (lambda value: type(value) is bool) if given in (Type.BOOL, Type.DYNAMIC) else _always(False)


def _is_number(given: Type) -> TypeTest:
    if given in (Type.NUMBER, Type.DYNAMIC):
        return lambda value: type(value) is float and math.isfinite(value)
    return _always(False)


def _is_string(given: Type) -> TypeTest:
    return (lambda value: type(value) is str) if given in (Type.STRING, Type.DYNAMIC) else _always(False)


TYPE_TESTS: Final[dict[str, Callable[[Type], TypeTest]]] = {
    "is_bool": _is_bool,
    "is_defined": _is_defined,
    "is_null": _is_null,
    "is_number": _is_number,
    "is_string": _is_string,
}
"""Functions of one value of any type, which never give undefined."""

AS_NUMBER: Final = "as_number"
NAMES: Final = frozenset({*BUILT_IN, *TYPE_TESTS, AS_NUMBER, TWIN_CHANGE_INCLUDES})
