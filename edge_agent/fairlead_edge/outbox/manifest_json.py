"""A manifest's JSON text, decoded so that a route that is written twice is the one in the new format.

JSON lets a name stand twice in an object, and decoders keep the last one.  A route that is redefined, as text and as an
object, is the object, wherever it stands (seed: route priority and time-to-live, "Deployment manifest changes").
"""

from __future__ import annotations

import json
from typing import Any

import msgspec


def decode(raw: bytes | str) -> Any:
    """Raises ``ValueError`` for what is no JSON, ``RecursionError`` for what is nested too deeply."""
    text = raw if isinstance(raw, str) else raw.decode()
    msgspec.json.decode(text)  # the strict one: no NaN, no lone surrogates
    return json.loads(text, object_pairs_hook=joined)


def joined(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of one object, each once."""
    found = dict(pairs)
    if len(found) != len(pairs):
        for name, value in pairs:
            if isinstance(value, dict) and not isinstance(found[name], dict):
                found[name] = value  # of several objects the last
    return found
