"""Explanations for people: why a condition is undefined for a message, and what is probably a mistake.

The reasons for `undefined` are the innermost places where a value was missing: each part of the condition is compiled
and run by itself.  Advice is about what compiles but is probably not intended; it never refuses a route.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fairlead_edge import ascii_case
from fairlead_edge.routes import functions, tokens
from fairlead_edge.routes.compiler import CompiledRoute, Condition, compile_node
from fairlead_edge.routes.endpoints import TELEMETRY, TWIN_CHANGES
from fairlead_edge.routes.errors import CompileError, error_at
from fairlead_edge.routes.message import RoutedMessage
from fairlead_edge.routes.parser import Body, Broken, Call, Chain, Literal, Node, Property, SystemProperty, Unary
from fairlead_edge.routes.values import UNDEFINED, Type


def reasons(condition: Condition, message: RoutedMessage) -> list[str]:
    """One sentence for each cause, in the order of the text; empty when the condition is true or false."""
    if condition.node is None or condition.run(message) is not UNDEFINED:
        return []
    explainer = _Explainer(condition.text, message)
    explainer.visit(condition.node)
    return list(dict.fromkeys(explainer.found)) or ["the condition is a value, but not true or false"]


class _Explainer:
    def __init__(self, text: str, message: RoutedMessage) -> None:
        self.text = text
        self.message = message
        self.found: list[str] = []

    def visit(self, node: Node) -> bool:
        """Whether this node is undefined; the innermost undefined nodes add the reasons."""
        inner = [self.visit(child) for child in _children(node)]
        value = self.value(node)
        undefined = value is UNDEFINED or value != value
        if undefined and not any(inner):
            self.found.append(self.reason(node))
        return undefined

    def value(self, node: Node) -> object:
        # The whole condition compiled, so there are no errors to collect, and functions of twins were checked.
        return compile_node(self.text, node, twin_changes=True, errors=[]).run(self.message)

    def reason(self, node: Node) -> str:
        match node:
            case Property(token=token):
                return f"there is no property {token.text}"
            case SystemProperty(token=token, name=name):
                return f"there is no system property {name} ({token.text})"
            case Body(token=token):
                return self.message.problem or f"{token.text} is an object or array, which has no value to compare"
            case Call(token=token) if token.text.lower() == functions.TWIN_CHANGE_INCLUDES:
                return self.message.problem
            case Call(token=token, arguments=arguments) if token.text.lower() == functions.AS_NUMBER:
                return f"as_number: {self.value(arguments[0])!r} is not a number"
            case Call(token=token):
                return f"{token.text} has no answer for {self.shown(_children(node))}"
            case Unary(token=token, operand=operand):
                return f"{token.text} has no answer for {self.shown([operand])}"
            case Chain(token=token):
                return f"{token.text} has no answer for {self.shown(_children(node))}"
            case Literal() | Broken():
                return "undefined is written in the condition"

    def shown(self, nodes: list[Node]) -> str:
        return " and ".join(self.shown_one(node) for node in nodes)

    def shown_one(self, node: Node) -> str:
        value = self.value(node)
        match value:
            case None:
                null_property = isinstance(node, Property | SystemProperty)
                return f"the null property {node.token.text}" if null_property else Type.NULL.value
            case bool():
                return "true" if value else "false"
            case float():
                return f"{value:g}"
            case _:
                return repr(value)


def _children(node: Node) -> list[Node]:
    match node:
        case Call(token=token, arguments=arguments):
            return [] if token.text.lower() == functions.TWIN_CHANGE_INCLUDES else list(arguments)
        case Unary(operand=operand):
            return [operand]
        case Chain(first=first, steps=steps):
            return [first, *(step for _, step in steps)]
        case _:
            return []


# ---- advice ----------------------------------------------------------------------------------------------------------

_GLUED = re.compile(r"\|\||&&|[*+%]|^-|(?<=[0-9A-Za-z_])-(?=[0-9])")


def advise(route: CompiledRoute) -> list[CompileError]:
    """Advice on sources that no message has, on operators that are part of a name because blanks are missing, and on
    properties named like a path into the body."""
    found: list[CompileError] = []
    if message := _source_advice(route.source.text):
        start = route.text.find("/")
        found.append(error_at(route.text, start, start + len(route.source.text), message))
    if route.condition.node is not None:
        for node in _names(route.condition.node):
            if glued := _GLUED.search(node.token.text):
                message = f"{node.token.text} is one name; put blanks around {glued[0]} if it is meant as an operator"
                found.append(error_at(route.text, node.token.start, node.token.end, message))
            elif isinstance(node, Property) and node.name.startswith(tokens.BODY_PREFIX[1:]):
                message = f"{node.token.text} is a property of the message; did you mean ${node.token.text}?"
                found.append(error_at(route.text, node.token.start, node.token.end, message))
    return found


def _source_advice(source: str) -> str:
    kept = source.rstrip("*/")
    if "*" in kept:
        return "a * counts only at the end of a source, so no message comes from here"
    known = tuple(ascii_case.folded(f"{each}/") for each in (TELEMETRY, TWIN_CHANGES))
    if kept and not ascii_case.folded(f"{kept}/").startswith(known):
        return f"no message comes from here; sources are below {TELEMETRY} and {TWIN_CHANGES}"
    return ""


def _names(node: Node) -> Iterator[Property | SystemProperty | Body]:
    match node:
        case Property() | SystemProperty() | Body():
            yield node
        case Call(arguments=arguments):
            for argument in arguments:
                yield from _names(argument)
        case Unary(operand=operand):
            yield from _names(operand)
        case Chain(first=first, steps=steps):
            yield from _names(first)
            for _, step in steps:
                yield from _names(step)
        case _:
            return
