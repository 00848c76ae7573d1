"""The narrowest type that holds every value of a field: the types' own look decides, so what is guessed fits."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fairlead_ingest.rows import ddl, fitting
from fairlead_ingest.rows.column_looks import BROKEN, ColumnLook, Misfit

# Levels of arrays and objects, and fields of one object; what has more stays JSON text.
DEPTH_MAX = 3
FIELDS_MAX = 50
TEXT = "string"
# In this order: a day is a moment, too, and an integer is a number of seconds.
_SCALARS = ("boolean", "bigint", "double", "date", "timestamp")


_LOOKS: Mapping[str, ColumnLook] = {
    name: ColumnLook.of("", ddl.type_of(name), rounds=False) for name in (*_SCALARS, TEXT)
}
_NUMBER = msgspec.json.Decoder(int | float)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


class Guess:
    """Of one field, an array's elements, or a field inside of an object."""

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

    def add(self, raw: bytes) -> None:
        """One value as JSON text; a null says nothing."""
        if raw == b"null":
            return
        self.count += 1
        try:
            self._look_at(raw)
        except BROKEN:
            self._is_text, self._is_wide = False, True

    def _look_at(self, raw: bytes) -> None:
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
        """As a contract has it; None where no type holds them all, or nothing was seen but nulls."""
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
        if raw[0] not in b"-0123456789":
            return
        try:
            number = _NUMBER.decode(raw)
        except BROKEN:
            return
        self.low = number if self.low is None else min(self.low, number)
        self.high = number if self.high is None else max(self.high, number)


def _fits(name: str, raw: bytes) -> bool:
    try:
        _LOOKS[name].close(raw)
    except (Misfit, *BROKEN):
        return False
    return True
