"""Guesses the narrowest type that holds every value of a field; uses the job's own parsers, so all values seen fit."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fairlead_ingest.rows import ddl, fitting
from fairlead_ingest.rows.column_check import BROKEN, ColumnCheck, Misfit

# Nesting of arrays and objects, and fields of one object. A field beyond these limits stays JSON text.
DEPTH_MAX = 3
FIELDS_MAX = 50
TEXT = "string"
# Narrowest first: every date is also a timestamp, and every integer also a timestamp in seconds.
_SCALARS = ("boolean", "bigint", "double", "date", "timestamp")


_CHECKS: Mapping[str, ColumnCheck] = {
    name: ColumnCheck.of("", ddl.type_of(name), rounds=False) for name in (*_SCALARS, TEXT)
}
_NUMBER = msgspec.json.Decoder(int | float)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


class Guess:
    """The guessed type of one field, of an array's elements, or of a field inside an object."""

    def __init__(self, depth: int = 0) -> None:
        self._depth = depth
        self._left = list(_SCALARS)
        self._is_text = True
        self._seen: set[str] = set()
        self._elements: Guess | None = None
        self._fields: dict[str, Guess] = {}
        self._is_wide = False
        self.count = 0
        self.low: float | None = None
        self.high: float | None = None
        self.numbers = 0
        self.other = b""
        """The first value that is not a number."""

    def add(self, raw: bytes) -> None:
        """Add one value, as JSON text; nulls are ignored."""
        if raw == b"null":
            return
        self.count += 1
        try:
            self._narrow_by(raw)
        except BROKEN:
            self._is_text, self._is_wide = False, True

    def _narrow_by(self, raw: bytes) -> None:
        self._is_text = self._is_text and _fits(TEXT, raw)
        kind = {b"[": "array", b"{": "object"}.get(raw[:1], "scalar")
        self._seen.add(kind)
        if len(self._seen) > 1:
            return
        if kind == "scalar":
            self._left = [name for name in self._left if _fits(name, raw)]
            self._span(raw)
        elif self._depth >= DEPTH_MAX:
            self._is_wide = True
        elif kind == "array":
            self._elements = self._elements or Guess(self._depth + 1)
            for each in _ARRAY.decode(raw):
                self._elements.add(bytes(each))
        else:
            self._object(raw)

    def type(self) -> str | None:
        """The type as written in a contract; None if no type holds all values or all of them were null."""
        if not self.count:
            return None
        return self._narrow() or (TEXT if self._is_text else None)

    def _narrow(self) -> str | None:
        if len(self._seen) > 1 or self._is_wide:
            return None
        if "scalar" in self._seen:
            return self._left[0] if self._left else None
        if "array" in self._seen:
            return self._of_elements()
        found = {name: each.type() for name, each in self._fields.items() if each.count}
        if not found or None in found.values() or len({name.lower() for name in found}) < len(found):
            return None
        return f"struct<{','.join(f'{name}:{inner}' for name, inner in found.items())}>"

    def _of_elements(self) -> str | None:
        assert self._elements is not None
        if not self._elements.count:
            return f"array<{TEXT}>"
        inner = self._elements.type()
        return None if inner is None else f"array<{inner}>"

    def _object(self, raw: bytes) -> None:
        for name, value in _OBJECT.decode(raw).items():
            if name not in self._fields:
                if len(self._fields) >= FIELDS_MAX or not fitting.NAME.fullmatch(name):
                    self._is_wide = True
                    return
                self._fields[name] = Guess(self._depth + 1)
            self._fields[name].add(bytes(value))

    def _span(self, raw: bytes) -> None:
        try:
            number = _NUMBER.decode(raw)
        except BROKEN:
            self.other = self.other or raw
            return
        self.numbers += 1
        self.low = number if self.low is None else min(self.low, number)
        self.high = number if self.high is None else max(self.high, number)


def _fits(name: str, raw: bytes) -> bool:
    try:
        _CHECKS[name].close(raw)
    except (Misfit, *BROKEN):
        return False
    return True
