"""Small, shared forms of JSON bodies that are kept by the ten thousand and mostly say the same.

    {"state": "Synced", "conditions": [{…}, {…}]}  ⇄  (shape, values…), equal parts stored once

Keys live in shapes, shared by all bodies with the same keys; texts are interned; nested parts that are equal (the
conditions of records written in the same second) are one object.
"""

from __future__ import annotations

from sys import intern
from typing import Any

SHARED_MAX = 65_536
"""Nested parts remembered for sharing; when full they are forgotten, which costs memory, never truth."""

Packed = Any

_shared: dict[Packed, Packed] = {}


class _Keys(tuple[str, ...]):
    """Marks a packed dict: its first item."""

    __slots__ = ()


_shapes: dict[tuple[str, ...], _Keys] = {}
_TRUE, _FALSE = object(), object()
"""Stand for truths: Python holds 1 and True for equal, and would share ``[1]`` with ``[true]``."""


def pack(value: Any) -> Packed:
    """Immutable; give it to ``unpack`` only."""
    if isinstance(value, str):
        return intern(value)
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if isinstance(value, dict):
        keys = tuple(value)
        shape = _shapes.get(keys)
        if shape is None:
            if len(_shapes) >= SHARED_MAX:
                _shapes.clear()
            shape = _shapes[keys] = _Keys(intern(key) for key in keys)
        return (shape, *(_nested(item) for item in value.values()))
    if isinstance(value, list):
        return (None, *(_nested(item) for item in value))
    return value


def unpack(packed: Packed) -> Any:
    """A fresh body, safe to change."""
    if not isinstance(packed, tuple):
        return packed is _TRUE if packed in (_TRUE, _FALSE) else packed
    shape, *values = packed
    if shape is None:
        return [unpack(value) for value in values]
    return {key: unpack(value) for key, value in zip(shape, values, strict=True)}


def outline(packed: Packed) -> dict[str, Any]:
    """Of a packed dict what is no list and no dict itself: a fraction of the work, where that is all that is asked."""
    if not isinstance(packed, tuple) or packed[0] is None:
        return {}
    return {key: unpack(item) for key, item in zip(packed[0], packed[1:], strict=True) if not isinstance(item, tuple)}


def _nested(value: Any) -> Packed:
    packed = pack(value)
    if not isinstance(packed, tuple):
        return packed
    if len(_shared) >= SHARED_MAX:
        _shared.clear()
    return _shared.setdefault(packed, packed)
