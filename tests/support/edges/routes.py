"""Shortcuts for tests of the route language."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fairlead_edge.routes.compiler import compile_condition, evaluate_condition
from fairlead_edge.routes.errors import CompileError, Invalid
from fairlead_edge.routes.message import RoutedMessage

JSON_BODY: dict[str, str | None] = {"contentType": "application/json", "contentEncoding": "utf-8"}
TWIN = "/twinChangeNotifications"


def message(
    properties: Mapping[str, str | None] | None = None,
    *,
    system: Mapping[str, str | None] | None = None,
    body: Any = None,
) -> RoutedMessage:
    """A message; a body that is not text is serialised, and readable unless `system` says otherwise."""
    raw = body if isinstance(body, str | bytes) else json.dumps(body).encode()
    return RoutedMessage(properties or {}, JSON_BODY if system is None else system, raw)


def value(condition: str, of: RoutedMessage | None = None, *, source: str = "/messages") -> bool | str:
    """True, False or "undefined"."""
    return evaluate_condition(compile_condition(condition, source), of or message())


def mistakes(condition: str, *, source: str = "/messages") -> list[CompileError]:
    """The mistakes in a route; empty if it compiles."""
    try:
        compile_condition(condition, source)
    except Invalid as invalid:
        return list(invalid.errors)
    return []
