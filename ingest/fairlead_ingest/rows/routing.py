"""Which route of a contract a message belongs to: by its source, its topic, its properties; the first that takes it.

A route that says nothing of, say, the topic takes messages of any. ``*`` stands for any characters, also none and also
``/``. What no route takes is judged by the columns that all messages share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from fairlead_ingest.rows.rules import ColumnRule

# Sources are what devices write into messages; so many are remembered with their route.
REMEMBERED_MAX = 4_096
SHARED = -1
"""The number of no route."""
_PROPERTIES = msgspec.json.Decoder(dict[str, str | None])


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRoute:
    """``source``, ``topic``: empty for any; ``properties``: what each has to be; ``columns``: those it adds."""

    name: str
    source: str = ""
    topic: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    rules: Mapping[str, ColumnRule] = field(default_factory=dict)
    description: str = ""

    def takes(self, topic: str, source: str | None, properties: Mapping[str, str | None]) -> bool:
        """A message without a source has none that fits."""
        if self.topic and not matches(self.topic, topic):
            return False
        if self.source and (source is None or not matches(self.source, source)):
            return False
        return all(properties.get(name) == value for name, value in self.properties.items())


def matches(pattern: str, text: str) -> bool:
    """In time that grows with the text alone, whatever it holds."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, last = rest
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


class RowRouter:
    """Finds the number of a message's route, ``SHARED`` where none takes it."""

    def __init__(self, routes: Sequence[RowRoute]) -> None:
        self._routes = routes
        self._looks_at_properties = any(route.properties for route in routes)
        self._remembered: dict[tuple[str, str | None], int] = {}

    def route(self, topic: str, source: str | None, properties: str | None) -> int:
        """``properties``: the JSON text of an object, as a row has it."""
        if self._looks_at_properties:
            return self._find(topic, source, _read(properties))
        known = self._remembered.get((topic, source))
        if known is None:
            known = self._find(topic, source, {})
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            self._remembered[topic, source] = known
        return known

    def _find(self, topic: str, source: str | None, properties: Mapping[str, str | None]) -> int:
        for number, route in enumerate(self._routes):
            if route.takes(topic, source, properties):
                return number
        return SHARED


def _read(properties: str | None) -> Mapping[str, str | None]:
    if properties is None:
        return {}
    try:
        return _PROPERTIES.decode(properties)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _texts(properties)


def _texts(properties: str) -> Mapping[str, str | None]:
    """Of properties some of which are no text: those that are."""
    try:
        values = msgspec.json.decode(properties, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}
    found: dict[str, str | None] = {}
    for name, value in values.items():
        try:
            found[name] = msgspec.json.decode(value, type=str)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            continue
    return found
