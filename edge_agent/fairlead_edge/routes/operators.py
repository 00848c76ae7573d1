"""The closures that conditions are made of: leaves, paths into a body, conversions, operators.

A compiled node is a function of the message.  Depending on its type, it returns a str, None or UNDEFINED (STRING); a
float, with NaN for undefined (NUMBER); True, False or UNDEFINED (BOOL); or any of these (DYNAMIC).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairlead_edge.routes import functions
from fairlead_edge.routes.message import RoutedMessage
from fairlead_edge.routes.parser import Literal, Node
from fairlead_edge.routes.tokens import BODY_PREFIX
from fairlead_edge.routes.values import NAN, UNDEFINED, Type, Undefined, Value

# ---- paths into a JSON body: names joined by dots, at most one `[n]` after each name ---------------------------------

Step = str | int
# Below, exact types are compared instead of using isinstance: JSON has no others, and every condition does this for
# every message (0.13 µs instead of 0.19 µs per leaf). mypy does not follow it.

_NAME = re.compile(r'[^()<>@,;:\\"/\[\]?={}. \t\r\n]+')
_INDEX = re.compile(r"\[([0-9]{1,9})\]")


def parse(path: str) -> tuple[Step, ...]:
    """The steps of a path. Raises `ValueError` with the reason; a name of digits alone is not allowed."""
    if not path:
        raise ValueError("a path is missing after the dot")
    steps: list[Step] = []
    position = 0
    while True:
        name = _NAME.match(path, position)
        if name is None:
            raise ValueError(f"a name is missing at {path[position:] or 'the end'!r}")
        if name[0].isascii() and name[0].isdigit():
            raise ValueError(f"{name[0]!r} is a number, not a name; an array element is written name[{name[0]}]")
        steps.append(name[0])
        position = name.end()
        if index := _INDEX.match(path, position):
            steps.append(int(index[1]))
            position = index.end()
        if position == len(path):
            return tuple(steps)
        if path[position] != ".":
            raise ValueError(f"only name, name[n] and dots are possible, not {path[position:]!r}")
        position += 1


def find(document: object, steps: tuple[Step, ...]) -> object:
    """The value at the path, or None."""
    for step in steps:
        if type(step) is str:
            if type(document) is not dict:
                return None
            document = document.get(step)
        elif type(document) is list and step < len(document):  # type: ignore[operator]
            document = document[step]  # type: ignore[index]
        else:
            return None
    return document


def value_of(found: object) -> Value:
    """A leaf as a value of the language; an object or array is undefined, every number a float."""
    kind = type(found)
    if kind is str or kind is float or kind is bool or found is None:
        return found  # type: ignore[return-value]
    if kind is int:
        try:
            return float(found)  # type: ignore[arg-type]
        except OverflowError:
            return float("inf") if found > 0 else float("-inf")  # type: ignore[operator]
    return UNDEFINED


Run = Callable[[RoutedMessage], Any]
Combine = Callable[[Any, Any], Any]

_COMPARE: dict[str, Combine] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_UNLIKE = {"=": False, "!=": True}
"""Values of different types are unequal, and neither is less than the other."""
_ARITHMETIC: dict[str, Combine] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": functions.divide,
    "%": functions.modulo,
}


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled node with its type; if `failed`, it has an error and evaluates to undefined."""

    node: Node
    type: Type
    run: Run
    failed: bool = False


# ── leaves ──


def constant(value: Any) -> Run:
    return lambda _: value


def application_property(name: str) -> Run:
    return lambda message: message.properties.get(name, UNDEFINED)


def system_property(name: str, escaped: bool) -> Run:
    if escaped:
        return lambda message: message.system_properties.get(name, UNDEFINED)
    application = "$" + name

    def run(message: RoutedMessage) -> str | Undefined | None:
        if application in message.properties:
            return message.properties[application]
        return message.system_properties.get(name, UNDEFINED)

    return run


def body(path: str, escaped: bool) -> Run:
    """A value of the body.  Raises `ValueError` for an invalid path.

    Property names cannot have brackets, so a path with a bracket never means a property.
    """
    steps = parse(path)
    name = None if escaped or "[" in path else f"{BODY_PREFIX}{path}".lower()
    key = f"{{{path}" if escaped else path

    def read(message: RoutedMessage) -> Any:
        if name in message.properties:
            text = message.properties[name]
            return UNDEFINED if text is None else text
        document = message.document
        if document is None:
            return UNDEFINED
        return value_of(find(document, steps))

    def run(message: RoutedMessage) -> Any:
        found = message.found
        if key in found:
            return found[key]
        value = found[key] = read(message)
        return value

    return run


def includes(steps: tuple[Step, ...]) -> Run:
    """A null in a twin change means that the property was removed, so it is not included."""

    def run(message: RoutedMessage) -> bool | Undefined:
        document = message.document
        return UNDEFINED if document is None else find(document, steps) is not None

    return run


# ── conversions ──


def to_number(compiled: Compiled) -> Run:
    run = compiled.run
    if compiled.type is Type.NUMBER:
        return run

    def number(message: RoutedMessage) -> float:
        value = run(message)
        return value if type(value) is float else NAN

    return number


def to_text(compiled: Compiled) -> Run:
    """A JSON null is not a text, although a null property counts as one in `concat`."""
    run = compiled.run
    if compiled.type is Type.STRING:
        return run

    def text(message: RoutedMessage) -> Any:
        value = run(message)
        return value if type(value) is str else UNDEFINED

    return text


def to_bool(compiled: Compiled) -> Run:
    run = compiled.run
    if compiled.type is Type.BOOL:
        return run

    def boolean(message: RoutedMessage) -> Any:
        value = run(message)
        return value if type(value) is bool else UNDEFINED

    return boolean


# ── operators ──


def negation(run: Run) -> Run:
    def negate(message: RoutedMessage) -> Any:
        value = run(message)
        return value if value is UNDEFINED else not value

    return negate


def negative(operand: Compiled) -> Run:
    """Unary minus; undefined for a body value that is not a number."""
    run = to_number(operand)
    if operand.type is Type.NUMBER:
        return lambda message: -run(message)
    return lambda message: _defined(-run(message))


def _defined(number: float) -> float | Undefined:
    """Convert NaN to UNDEFINED, for a value whose type is not known to be a number."""
    return number if number == number else UNDEFINED


def decide(runs: list[Run], *, winner: bool) -> Run:
    """OR with winner True, AND with winner False: a winner decides the result, otherwise an undefined does."""
    if len(runs) == 2:
        first, second = runs

        def decide_two(message: RoutedMessage) -> Any:
            left = first(message)
            if left is winner:
                return winner
            right = second(message)
            if right is winner:
                return winner
            return UNDEFINED if left is UNDEFINED else right

        return decide_two

    def decide_all(message: RoutedMessage) -> Any:
        answer: bool | Undefined = not winner
        for run in runs:
            value = run(message)
            if value is winner:
                return winner
            if value is UNDEFINED:
                answer = UNDEFINED
        return answer

    return decide_all


def pair(left: Run, combine: Combine, right: Run, right_node: Node) -> Run:
    """One operator; a literal on the right, the most common case, is evaluated only once."""
    if isinstance(right_node, Literal):
        value = right_node.value
        return lambda message: combine(left(message), value)
    return lambda message: combine(left(message), right(message))


def compare_with_literal(symbol: str, left: Compiled, literal: Literal) -> Run | None:
    """The most common comparison: a property or body value with a text or number."""
    run, value, compare = left.run, literal.value, _COMPARE[symbol]
    kind = type(value)
    if left.type not in (Type.STRING, Type.DYNAMIC) or kind not in (str, float):
        return None
    unlike = _UNLIKE.get(symbol, UNDEFINED) if left.type is Type.DYNAMIC else UNDEFINED

    def against(message: RoutedMessage) -> Any:
        found = run(message)
        if type(found) is kind:
            return compare(found, value)
        return found if found is UNDEFINED else unlike

    return against


def fold(left: Run, steps: list[tuple[Combine, Run]]) -> Run:
    def run(message: RoutedMessage) -> Any:
        value = left(message)
        for combine, right in steps:
            value = combine(value, right(message))
        return value

    return run


def apply(function: Callable[..., Any], runs: list[Run]) -> Run:
    if len(runs) == 1:
        only = runs[0]
        return lambda message: function(only(message))
    if len(runs) == 2:
        first, second = runs
        return lambda message: function(first(message), second(message))
    return lambda message: function(*[run(message) for run in runs])


def combine(symbol: str, left: Type, right: Type, result: Type) -> Combine:
    if symbol == "??":
        return _coalesce(left, right, result)
    if symbol == "||":
        return _concat(left, right)
    if symbol in _ARITHMETIC:
        return _ARITHMETIC[symbol] if result is Type.NUMBER else _dynamic_arithmetic(_ARITHMETIC[symbol])
    return _compare(symbol, left, right)


def _coalesce(left: Type, right: Type, result: Type) -> Combine:
    if left is Type.NUMBER:
        return lambda value, otherwise: value if value == value else otherwise
    if result is Type.DYNAMIC and right is Type.NUMBER:
        return lambda value, otherwise: _defined(otherwise) if value is UNDEFINED else value
    return lambda value, otherwise: otherwise if value is UNDEFINED else value


def _concat(left: Type, right: Type) -> Combine:
    def concat(first: Any, second: Any) -> str | Undefined:
        if left is Type.DYNAMIC and type(first) is not str:
            return UNDEFINED
        if right is Type.DYNAMIC and type(second) is not str:
            return UNDEFINED
        return functions.concat(first, second)

    return concat


def _dynamic_arithmetic(function: Combine) -> Combine:
    def run(left: Any, right: Any) -> float | Undefined:
        if type(left) is not float or type(right) is not float:
            return UNDEFINED
        return _defined(function(left, right))

    return run


def _compare(symbol: str, left: Type, right: Type) -> Combine:
    compare = _COMPARE[symbol]
    if Type.DYNAMIC in (left, right):
        return _compare_dynamic(symbol, left, right)
    if left is Type.NUMBER:
        return lambda first, second: compare(first, second) if first == first and second == second else UNDEFINED
    if left is Type.STRING:
        return lambda first, second: compare(first, second) if type(first) is str and type(second) is str else UNDEFINED
    if left is Type.BOOL:
        return lambda first, second: UNDEFINED if first is UNDEFINED or second is UNDEFINED else compare(first, second)
    if left is Type.NULL:
        equal = compare(0, 0)
        return lambda first, second: equal
    return lambda first, second: UNDEFINED


def _compare_dynamic(symbol: str, left: Type, right: Type) -> Combine:
    """Values of different types are unequal, and neither is less than the other; a null property equals no value."""
    compare = _COMPARE[symbol]
    unlike = _UNLIKE.get(symbol, UNDEFINED)

    def run(first: Any, second: Any) -> Any:
        if first is UNDEFINED or second is UNDEFINED or first != first or second != second:
            return UNDEFINED
        if type(first) is not type(second):
            # A property that is present but null is a text without a value; a JSON null is a value.
            if (first is None and left is Type.STRING) or (second is None and right is Type.STRING):
                return UNDEFINED
            return unlike
        if first is None:
            if Type.STRING in (left, right):
                return UNDEFINED
            return compare(0, 0)
        return compare(first, second)

    return run
