"""Text → something that runs: the two entries of the route language."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fairlead_edge.routes import evaluate, parser
from fairlead_edge.routes.errors import CompileError, Invalid
from fairlead_edge.routes.message import RoutedMessage
from fairlead_edge.routes.nodes import Node
from fairlead_edge.routes.sink import Sink
from fairlead_edge.routes.source import TELEMETRY, SourcePattern
from fairlead_edge.routes.values import UNDEFINED, Undefined
from fairlead_wire.validation import route_manifest

TEXT_CHARS_MAX = route_manifest.TEXT_CHARS_MAX
"""Longest route or condition; the time to compile one grows in proportion to its length."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A compiled condition; `run(message)` is True, False or UNDEFINED, and only True matches."""

    text: str
    node: Node | None
    run: Callable[[RoutedMessage], bool | Undefined]


@dataclass(frozen=True, slots=True)
class CompiledRoute:
    """A compiled route."""

    text: str
    source: SourcePattern
    condition: Condition
    sink: Sink

    def matches(self, source: str, message: RoutedMessage) -> bool:
        """Does this message, coming from `source`, go this way?"""
        return self.source.matches(source) and self.condition.run(message) is True


def compile_condition(text: str, source: str = TELEMETRY) -> Condition:
    """A condition as it would stand in a route from `source`. Raises `Invalid`."""
    _check_length(text)
    errors: list[CompileError] = []
    node = parser.parse_condition(text, errors)
    run = evaluate.compile_condition(text, node, twin_changes=SourcePattern(source).twin_changes, errors=errors)
    if errors:
        raise Invalid(errors)
    return Condition(text, node, run)


def compile_route(text: str) -> CompiledRoute:
    """A whole route. Raises `Invalid` with every mistake: of types in WHERE, and of the sink."""
    _check_length(text)
    parsed = parser.parse_route(text)
    errors = parsed.errors
    condition = Condition(text, None, _always)
    if parsed.condition is not None:
        run = evaluate.compile_condition(text, parsed.condition, twin_changes=parsed.source.twin_changes, errors=errors)
        condition = Condition(text, parsed.condition, run)
    if errors or parsed.sink is None:
        raise Invalid(sorted(errors, key=lambda error: (error.line, error.column)))
    return CompiledRoute(text, parsed.source, condition, parsed.sink)


def evaluate_condition(condition: Condition, message: RoutedMessage) -> bool | str:
    """The result as the outside contract names it: true, false or "undefined"."""
    result = condition.run(message)
    return "undefined" if result is UNDEFINED else result


def _always(_: RoutedMessage) -> bool:
    return True


def _check_length(text: str) -> None:
    if len(text) > TEXT_CHARS_MAX:
        message = f"{len(text)} characters are too many, {TEXT_CHARS_MAX} is the limit"
        raise Invalid([CompileError(line=1, column=1, end_column=2, message=message)])
