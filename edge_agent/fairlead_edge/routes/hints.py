"""What people read when a condition does not compile: what was found, what is needed, what was probably meant."""

from __future__ import annotations

import difflib
import math

from fairlead_edge.routes import functions, typerules
from fairlead_edge.routes.nodes import Literal, Property, SystemProperty, Unary
from fairlead_edge.routes.operators import Compiled
from fairlead_edge.routes.tokens import Token
from fairlead_edge.routes.typerules import Type


def has(compiled: Compiled) -> str:
    """An operand as people see it."""
    if compiled.failed:
        return "nothing valid (see the other mistake)"
    match compiled.node:
        case Property(token=token) | SystemProperty(token=token):
            return f"the property {token.text} (always text)"
        case Literal(token=token):
            return token.text
        case _:
            return compiled.type.value


def spelled(token: Token) -> str:
    """Words in capitals, signs as they are."""
    return token.text.upper() if token.kind in typerules.LOGIC or token.kind == "NOT" else token.text


def operand_message(token: Token, left: Compiled, right: Compiled) -> str:
    """Why the two sides do not go together."""
    operator_text = spelled(token)
    given = f"has {has(left)} and {has(right)}"
    if token.kind in typerules.ARITHMETIC:
        return f"{operator_text} needs numbers, {given}{as_number_hint([left, right])}"
    if token.kind == "||":
        bools = Type.BOOL in (left.type, right.type)
        return f"|| joins texts, {given}{'; did you mean OR?' if bools else ''}"
    if token.kind in typerules.LOGIC:
        return f"{operator_text} needs true or false on both sides, {given}"
    return f"{operator_text} compares values of one type, {given}{_comparison_hint(left, right)}"


def as_number_hint(suspects: list[Compiled]) -> str:
    """For places that need a number: the first operand that is text but could be one."""
    for each in suspects:
        if isinstance(each.node, Property | SystemProperty):
            return _number_of_property(each.node.token.text)
        if isinstance(each.node, Literal) and isinstance(each.node.value, str):
            number = each.node.value.strip()
            if not math.isnan(functions.number_of(number)):
                return f"; did you mean {number} without quotes?"
    return ""


def _number_of_property(name: str) -> str:
    """A minus glued to a name is part of it, which is seldom meant."""
    return (
        f"; did you mean - {name[1:]} with a blank?" if name.startswith("-") else f"; did you mean as_number({name})?"
    )


def _comparison_hint(left: Compiled, right: Compiled) -> str:
    for one, other in ((left, right), (right, left)):
        if isinstance(one.node, Property | SystemProperty):
            name = one.node.token.text
            if other.type is Type.NUMBER:
                return _number_of_property(name)
            if other.type is Type.BOOL and isinstance(other.node, Literal):
                return f"; did you mean '{other.node.token.text}' in quotes?"
            if other.type is Type.NULL:
                return f"; did you mean is_null({name})?"
            if other.type is Type.UNDEFINED and not other.failed:
                return f"; did you mean is_defined({name})?"
    if {left.type, right.type} == {Type.STRING, Type.NUMBER}:
        return as_number_hint([left, right])
    if {left.type, right.type} == {Type.BOOL, Type.STRING}:
        return "; || joins texts and comparisons do not chain: did you mean AND or OR?"
    return ""


def unary_hint(node: Unary, operand: Compiled) -> str:
    """For `-` and NOT before something they cannot be applied to."""
    if node.token.kind == "-":
        return as_number_hint([operand])
    if isinstance(operand.node, Property | SystemProperty):
        return "; NOT binds tighter than a comparison: did you mean NOT (...)?"
    return ""


def unknown_function(name: str) -> str:
    """There is no such function, or not here."""
    if name.lower() == functions.TWIN_CHANGE_INCLUDES:
        return f"{name} works only in a route FROM /twinChangeNotifications"
    close = difflib.get_close_matches(name.lower(), functions.NAMES, n=1)
    return f"there is no function {name}{f'; did you mean {close[0]}?' if close else ''}"
