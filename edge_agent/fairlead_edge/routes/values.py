"""Values and static types.

At run time a value is a str, float, bool, None, or undefined, which three-valued logic needs.  If a value is known at
compile time to be a number, NaN stands for undefined, so that arithmetic needs no checks.

The static type of a message property is always string; only body values are dynamic.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class Undefined(Enum):
    """The undefined value: a missing property, an unreadable body, a number that is not one."""

    UNDEFINED = "undefined"

    def __repr__(self) -> str:
        return "UNDEFINED"


UNDEFINED: Final = Undefined.UNDEFINED
NAN: Final = float("nan")

Value = str | float | bool | None | Undefined


class Type(Enum):
    """What is known about a value at compile time."""

    STRING = "text"
    NUMBER = "a number"
    BOOL = "true or false"
    NULL = "null"
    UNDEFINED = "undefined"
    DYNAMIC = "a body value"


ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "%"})
COMPARISON: Final = frozenset({"=", "!=", "<", "<=", ">", ">="})
LOGIC: Final = frozenset({"AND", "OR"})

_LOGICAL = frozenset({Type.BOOL, Type.NULL, Type.UNDEFINED, Type.DYNAMIC})


def accepts(wanted: Type, given: Type) -> bool:
    """Whether a value of type `given` is allowed where `wanted` is needed; body values are checked at run time."""
    return given in (wanted, Type.DYNAMIC)


def binary(operator: str, left: Type, right: Type) -> Type | None:
    """The type of `left operator right`; None if they cannot be combined."""
    if operator in ARITHMETIC:
        if accepts(Type.NUMBER, left) and accepts(Type.NUMBER, right):
            return Type.DYNAMIC if Type.DYNAMIC in (left, right) else Type.NUMBER
        return None
    if operator == "||":
        return Type.STRING if accepts(Type.STRING, left) and accepts(Type.STRING, right) else None
    if operator in LOGIC:
        if left not in _LOGICAL or right not in _LOGICAL:
            return None
        nulls = (left is Type.NULL, right is Type.NULL)
        return Type.NULL if (any(nulls) if operator == "AND" else all(nulls)) else Type.BOOL
    if not _comparable(left, right):
        return None
    if operator == "??":
        return Type.DYNAMIC if Type.DYNAMIC in (left, right) else left
    return Type.BOOL


def unary(operator: str, operand: Type) -> Type | None:
    """The type of `operator operand`; None if it cannot be applied."""
    if operator == "-":
        return operand if accepts(Type.NUMBER, operand) else None
    return Type.BOOL if operand in (Type.BOOL, Type.NULL, Type.DYNAMIC) else None


def _comparable(left: Type, right: Type) -> bool:
    if Type.DYNAMIC in (left, right):
        return Type.UNDEFINED not in (left, right)
    return left is right
