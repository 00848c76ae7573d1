"""What compiles but is hardly meant: for people who check a manifest, never a reason to refuse a route."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fairlead_edge import ascii_case
from fairlead_edge.routes.compiler import CompiledRoute
from fairlead_edge.routes.errors import CompileError, error_at
from fairlead_edge.routes.nodes import Body, Call, Chain, Node, Property, SystemProperty, Unary
from fairlead_edge.routes.source import TELEMETRY, TWIN_CHANGES

_GLUED = re.compile(r"\|\||&&|[*+%]|^-|(?<=[0-9A-Za-z_])-(?=[0-9])")


def advise(route: CompiledRoute) -> list[CompileError]:
    """Sources that no message has, and operators that became part of a name because no blank was around them."""
    found: list[CompileError] = []
    if message := _source_advice(route.source.text):
        start = route.text.find("/")
        found.append(error_at(route.text, start, start + len(route.source.text), message))
    if route.condition.node is not None:
        for node in _names(route.condition.node):
            if glued := _GLUED.search(node.token.text):
                message = f"{node.token.text} is one name; put blanks around {glued[0]} if it is meant as an operator"
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
