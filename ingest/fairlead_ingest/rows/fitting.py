"""Decides whether a body fits its columns exactly, before Spark reads it, which would silently change values.

    body ──fast check (C)──▶ fits as it is
           └─ else ──exact check, field by field──▶ the text to read instead, with the values that fit

Spark turns 200 into the ``tinyint`` -56, 1e39 into an infinite ``float``, "12:30" into a ``timestamp`` of today, and a
number of many digits in a ``string`` column into another number. Here, a value that the column cannot hold is a misfit,
and Spark reads everything else (except names of time zones that its Java does not know). Floating point columns take
the nearest value of a fraction, but not zero for a nonzero number, and integers only exactly. Dates and timestamps must
be in the years 1 to 9999 (UTC), because Python cannot represent others. A value in a ``string`` column that is not a
string becomes its JSON text.

In the contract's mode ``evolve``, unknown fields get a column:

    tasks    collect the unknown fields and their types from the bodies they write
    driver   adds the columns and fails the batch; the restarted query reads the fields into them

A column's type comes from the first batch with the field: numbers are ``double`` (a sensor that sends 20 today may send
20.5 tomorrow), true and false ``boolean``, everything else ``string`` (objects and arrays as JSON text). Only top-level
fields with a valid column name get a column; the others are only in the body.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import types

from fairlead_ingest.rows.column_check import (
    BROKEN,
    NAME_CHARS_MAX,
    NULL,
    ColumnCheck,
    Misfit,
    has_floats,
    names_checked_after_decoding,
)
from fairlead_ingest.rows.rules import NO_RULE, ColumnRule

# How many misfits of one body are listed; a body with more has another schema.
MISFITS_MAX = 10
TWIN = "differs from a column only in case"
# A number this small may become zero, which the fast check cannot see inside nested columns.
_SMALL = re.compile(rb"[eE]-[0-9]{2}")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
# Escapes with which a field name may be written: a plain ASCII name, and any name.
_PLAIN = re.compile(r"[A-Za-z0-9_ .-]*")
_ESCAPED, _ANY_ESCAPE = re.compile(rb"\\u00[0-7]"), re.compile(rb"\\")
_RAW_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class UnfitColumn(NamedTuple):
    """A column that a body does not fit, and why; empty if only Spark could not read it."""

    column: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result for one body. ``text`` is what to read the columns from, without misfits; None for the body itself.

    ``wrong`` lists up to ``MISFITS_MAX`` misfits; it is also empty for a body that is not an object.
    """

    fits: bool = True
    text: str | None = None
    wrong: tuple[UnfitColumn, ...] = ()


_FITS = Verdict()
_NO_OBJECT = Verdict(fits=False, text="{}")


class Judge:
    """Judges bodies for one set of columns.

    ``rounds``: decimals are rounded to their column's places. ``evolves``: a field that differs from a column only in
    case is a misfit, because it can never get a column. ``rules``: further rules by column. ``foreign``: columns of the
    table that are never read from these bodies.
    """

    def __init__(
        self,
        columns: types.StructType,
        *,
        rounds: bool = False,
        evolves: bool = False,
        rules: Mapping[str, ColumnRule] | None = None,
        foreign: Collection[str] = (),
    ) -> None:
        asked = rules or {}
        self._columns = [
            ColumnCheck.of(field.name, field.dataType, rounds, asked.get(field.name, NO_RULE))
            for field in columns.fields
        ]
        self._has_columns = bool(self._columns or foreign)
        self._names = {*(column.name for column in self._columns), *foreign}
        self._lower = {name.lower() for name in self._names} if evolves else set()
        fields = [(f"f{index}", *column.field) for index, column in enumerate(self._columns)]
        strangers = [
            (f"g{index}", msgspec.Raw, msgspec.field(name=name, default=NULL)) for index, name in enumerate(foreign)
        ]
        body = msgspec.defstruct("Body", [*fields, *strangers], gc=False, kw_only=True)
        self._decode = msgspec.json.Decoder(body).decode
        self._has_inner_floats = any(has_floats(field.dataType) for field in columns.fields)
        once = {name for field in columns.fields for name in names_checked_after_decoding(field.name, field.dataType)}
        self._once = [msgspec.json.encode(name) for name in once]
        self._escape = _ESCAPED if all(map(_PLAIN.fullmatch, once)) else _ANY_ESCAPE
        checks = [(index, each.check) for index, each in enumerate(self._columns) if each.check is not None]
        self._checked = [*checks, *((len(fields) + index, _is_null) for index in range(len(strangers)))]

    def judge(self, body: bytes) -> Verdict:
        """The verdict on one JSON text."""
        if not self._has_columns:
            return _FITS
        if body[:1] != b"{":
            return _NO_OBJECT
        if len(body) > NAME_CHARS_MAX:
            return self._closely(body)
        try:
            values = msgspec.structs.astuple(self._decode(body))
        except BROKEN:
            return self._closely(body)
        for index, check in self._checked:
            value = values[index]
            if value is not None and not check(value):
                return self._closely(body)
        # Searching for a single byte first is much faster than the patterns.
        if b"\\" in body and (_SURROGATE.search(body) or (self._once and self._escape.search(body))):
            return self._closely(body)
        for name in self._once:
            if body.count(name) > 1:
                return self._closely(body)
        if self._has_inner_floats and _SMALL.search(body):
            return self._closely(body)
        return self._closely(body) if self._lower and self._twins(body) else _FITS

    def _closely(self, body: bytes) -> Verdict:
        try:
            fields = _RAW_FIELDS.decode(body)
        except BROKEN:
            return _NO_OBJECT
        parts, wrong = [], [UnfitColumn(name, TWIN) for name in self._twins(body)]
        for column in self._columns:
            raw = fields.get(column.name)
            try:
                value = column.close(None if raw is None else bytes(raw))
            except (Misfit, *BROKEN) as misfit:
                broken = str(misfit) if isinstance(misfit, Misfit) else ""
                wrong.append(UnfitColumn(column.name, broken or column.wrong_type(bytes(raw or b""))))
                continue
            if value is not None:
                parts.append(msgspec.json.encode(column.name) + b":" + value)
        try:
            text = (b"{" + b",".join(parts) + b"}").decode()
        except UnicodeError:
            return _NO_OBJECT
        return Verdict(fits=not wrong, text=text, wrong=tuple(wrong[:MISFITS_MAX]))

    def _twins(self, body: bytes) -> list[str]:
        if not self._lower:
            return []
        fields = _RAW_FIELDS.decode(body).items()
        return [
            name
            for name, value in fields
            if name not in self._names and name.lower() in self._lower and bytes(value) != b"null"
        ]


def _is_null(raw: msgspec.Raw) -> bool:
    return memoryview(raw)[0] == 110  # n


# A limit, because a producer that numbers its fields would make a table that no reader can open.
COLUMNS_MAX = 1_000
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}")
TYPES: Mapping[str, pa.DataType] = {"double": pa.float64(), "boolean": pa.bool_(), "string": pa.string()}
_TYPE_OF_FIRST_BYTE = {
    **dict.fromkeys(b"-0123456789", "double"), **dict.fromkeys(b"tf", "boolean"), **dict.fromkeys(b'"{[', "string"),
}  # fmt: skip

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def unknown_fields(bodies: Iterable[str | None], known: Iterable[str]) -> dict[str, str]:
    """The type by name of fields in ``bodies`` that are not in ``known``; nulls are ignored."""
    columns = {name.lower() for name in known}
    found: dict[str, str] = {}
    for body in bodies:
        if body is None or not body.startswith("{"):
            continue
        try:
            fields = _decode(body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            continue  # for example, a transform changed the text
        for name, value in fields.items():
            if name in columns or name.lower() in columns:
                continue
            data_type = _TYPE_OF_FIRST_BYTE.get(memoryview(value)[0])
            if data_type is not None and NAME.fullmatch(name):
                _note(found, name, data_type)
    return found


def merge_fields(parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Merge the fields that several tasks found, ordered by name."""
    found: dict[str, str] = {}
    for part in parts:
        for name, data_type in part.items():
            _note(found, name, data_type)
    return dict(sorted(found.items()))


def new_columns(found: Mapping[str, str], held: Iterable[str]) -> pa.Schema:
    """The columns to add for ``found`` to those ``held``, up to ``COLUMNS_MAX``; names are not case-sensitive."""
    there = {name.lower() for name in held}
    room = COLUMNS_MAX - len(there)
    added: list[pa.Field] = []
    for name, data_type in found.items():
        if name.lower() not in there and len(added) < room:
            there.add(name.lower())
            added.append(pa.field(name, TYPES[data_type]))
    return pa.schema(added)


def _note(found: dict[str, str], name: str, data_type: str) -> None:
    if len(found) < COLUMNS_MAX or name in found:
        found[name] = data_type if found.get(name, data_type) == data_type else "string"
