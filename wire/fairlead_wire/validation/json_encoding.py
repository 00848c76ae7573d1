"""Encodes what a program gives us as JSON, and refuses numbers that JSON does not have: msgspec writes them as null."""

from __future__ import annotations

import math
from typing import Any

import msgspec


class NotJson(ValueError):
    """A value is not JSON; ``str()`` is ``NaN at body.v, which is not JSON``."""


def encode(value: Any) -> bytes:
    """The JSON of ``value``.  Raises ``NotJson`` naming a NaN or infinity, and the errors of msgspec."""
    text = msgspec.json.encode(value)
    if b"null" in text and (found := _not_finite(msgspec.to_builtins(value), "")):
        raise NotJson(f"{found}, which is not JSON")
    return text


def _not_finite(value: Any, place: str) -> str | None:
    match value:
        case float() if not math.isfinite(value):
            name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            return f"{name} at {place}" if place else name
        case dict():
            inner = [(f"{place}.{key}" if place else str(key), each) for key, each in value.items()]
        case list() | tuple():
            inner = [(f"{place}[{index}]", each) for index, each in enumerate(value)]
        case _:
            return None
    return next((found for where, each in inner if (found := _not_finite(each, where))), None)
