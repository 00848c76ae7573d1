"""Does a body fit the columns of its schema, exactly? Asked before Spark reads it, which would rather change a value.

    body ──fast look (C)──▶ fits as it is
           └─ else ──close look, field by field──▶ the text to read instead: what fits, and texts as they were written

Spark makes 200 a ``tinyint`` of -56, 1e39 an infinite ``float``, "12:30" a ``timestamp`` of today, and a number of many
digits in a ``string`` column another number. Here a value that the column cannot hold is a misfit. Floating point
columns hold the nearest value of a fraction, but no zero for what is none, and an integer only exactly. Dates and
timestamps lie in the years 1 to 9999 (UTC), because no Python program can read others. What is no string in a
``string`` column goes in as the JSON text it was.
"""

from __future__ import annotations

import datetime
import decimal
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from pyspark.sql import types

# A decimal's exponent beyond this is in no column, and costs memory by its size.
EXPONENT_MAX = 1_000
_FLOAT_MAX, _FLOAT_MIN = 3.4028235e38, 1.2e-38
_SECONDS_MIN, _SECONDS_MAX = -62_135_596_800, 253_402_300_799
_DAY = r"(?!0000)[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_CLOCK = r"[0-9]{1,2}:[0-9]{1,2}(:[0-9]{1,2}(\.[0-9]{1,6}0*)?)?"
_ZONE = r" ?(Z|z|[A-Za-z_]+(/[A-Za-z0-9_+-]+)*([+-][0-9:]+)?|[+-][0-9:]+)"
# A number so small may become zero; inside of a column it is found by its look.
_SMALL = re.compile(rb"[eE]-[0-9]{2}")
_MANTISSA = re.compile(rb"[-0.]*[1-9]")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_RAW_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAW_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_STRING = msgspec.json.Decoder(str)
_BROKEN = (msgspec.MsgspecError, UnicodeError, RecursionError)

_INTEGERS: dict[type, int] = {types.ByteType: 8, types.ShortType: 16, types.IntegerType: 32, types.LongType: 64}
_LEAVES = (
    *_INTEGERS, types.FloatType, types.DoubleType, types.DecimalType, types.BooleanType, types.StringType,
    types.BinaryType, types.DateType, types.TimestampType, types.TimestampNTZType,
)  # fmt: skip

Check = Callable[[Any], bool]


class Misfit(Exception):
    """This value is not one the column holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """``text``: what the columns are to be read from, None for the body itself. Not fitting, it lacks what did not."""

    fits: bool = True
    text: str | None = None


_FITS = Verdict()
_NULL = msgspec.Raw(b"null")


def check_type(data_type: types.DataType) -> None:
    """Raises ``ValueError`` for a type that no column of a body can have."""
    if isinstance(data_type, (types.CharType, types.VarcharType)):
        raise ValueError(f"{data_type.simpleString()}: no column has a length; write string")
    if isinstance(data_type, types.ArrayType):
        check_type(data_type.elementType)
    elif isinstance(data_type, types.MapType):
        if type(data_type.keyType) is not types.StringType:
            raise ValueError(f"{data_type.simpleString()}: keys of JSON objects are strings")
        check_type(data_type.valueType)
    elif isinstance(data_type, types.StructType):
        names = [field.name.lower() for field in data_type.fields]
        for field in data_type.fields:
            if names.count(field.name.lower()) > 1:
                raise ValueError(f"{data_type.simpleString()}: {field.name}: named twice")
            check_type(field.dataType)
        if not names:
            raise ValueError(f"{data_type.simpleString()}: no fields")
    elif type(data_type) not in _LEAVES:
        known = "tinyint, smallint, int, bigint, float, double, decimal, boolean, string, binary, date, timestamp"
        raise ValueError(f"{data_type.simpleString()}: one of {known}, timestamp_ntz, array, map, struct")


class Judge:
    """Looks at bodies for one set of columns.

    ``rounds``: decimals are rounded to their column's places. ``evolves``: a field that differs from a column in the
    case of its letters alone will never have one, so its body does not fit.
    """

    def __init__(self, columns: types.StructType, *, rounds: bool = False, evolves: bool = False) -> None:
        self._columns = [_Column.of(field.name, field.dataType, rounds) for field in columns.fields]
        self._names = {column.name for column in self._columns}
        self._lower = {name.lower() for name in self._names} if evolves else set()
        fields = [
            (f"f{index}", msgspec.Raw, msgspec.field(name=column.name, default=_NULL))
            if column.quick is msgspec.Raw
            else (f"f{index}", column.quick | None, msgspec.field(name=column.name, default=None))
            for index, column in enumerate(self._columns)
        ]
        self._decode = msgspec.json.Decoder(msgspec.defstruct("Body", fields, gc=False)).decode
        self._has_inner_floats = any(_has_floats(field.dataType, 0) for field in columns.fields)
        self._checked = [(index, each.check) for index, each in enumerate(self._columns) if each.check is not None]

    def look(self, body: bytes) -> Verdict:
        """The verdict on one JSON text. What is no object is left to Spark."""
        if body[:1] != b"{" or not self._columns:
            return _FITS
        try:
            values = msgspec.structs.astuple(self._decode(body))
        except _BROKEN:
            return self._closely(body)
        for index, check in self._checked:
            value = values[index]
            if value is not None and not check(value):
                return self._closely(body)
        # One letter is found many times faster than two.
        if b"\\" in body and _SURROGATE.search(body):
            return self._closely(body)
        if self._has_inner_floats and _SMALL.search(body):
            return self._closely(body)
        return Verdict(fits=False) if self._lower and self._has_twins(body) else _FITS

    def _closely(self, body: bytes) -> Verdict:
        try:
            fields = _RAW_FIELDS.decode(body)
        except _BROKEN:
            return Verdict(fits=False, text="{}")
        parts, fits = [], not self._has_twins(body)
        for column in self._columns:
            raw = fields.get(column.name)
            if raw is None:
                continue
            try:
                value = column.close(bytes(raw))
            except (Misfit, *_BROKEN):
                fits = False
                continue
            parts.append(msgspec.json.encode(column.name) + b":" + value)
        try:
            return Verdict(fits=fits, text=(b"{" + b",".join(parts) + b"}").decode())
        except UnicodeError:
            return Verdict(fits=False, text="{}")

    def _has_twins(self, body: bytes) -> bool:
        if not self._lower:
            return False
        fields = _RAW_FIELDS.decode(body).items()
        return any(
            name not in self._names and name.lower() in self._lower and bytes(value) != b"null"
            for name, value in fields
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """``quick``: the type of the fast look, and what it cannot see itself; ``close``: exact, gives the text to read."""

    name: str
    quick: Any
    check: Check | None
    close: Callable[[bytes], bytes]

    @classmethod
    def of(cls, name: str, data_type: types.DataType, rounds: bool) -> _Column:
        if isinstance(data_type, types.StringType):
            # Taken over as it is: most are strings, and what is none is found by its first letter.
            return cls(name=name, quick=msgspec.Raw, check=_is_string, close=_closer(data_type, rounds))
        quick, check = _quick(data_type, rounds)
        if isinstance(data_type, (types.DoubleType, types.FloatType)):
            check = _is_far_from_zero
        return cls(name=name, quick=quick, check=check, close=_closer(data_type, rounds))


def _is_far_from_zero(value: float) -> bool:
    """What is smaller, or a zero with a point, may have been a number too small for its column; an integer was none."""
    return abs(value) > _FLOAT_MIN or type(value) is int


def _has_floats(data_type: types.DataType, depth: int) -> bool:
    """Floating point inside of a column."""
    if isinstance(data_type, types.ArrayType):
        return _has_floats(data_type.elementType, depth + 1)
    if isinstance(data_type, types.MapType):
        return _has_floats(data_type.valueType, depth + 1)
    if isinstance(data_type, types.StructType):
        return any(_has_floats(field.dataType, depth + 1) for field in data_type.fields)
    return depth > 0 and isinstance(data_type, (types.DoubleType, types.FloatType))


def _is_string(raw: msgspec.Raw) -> bool:
    return memoryview(raw)[0] in b'"n'


def _quick(data_type: types.DataType, rounds: bool) -> tuple[Any, Check | None]:
    """msgspec's type for a column's values, and a look at those it takes; may refuse what fits, never take a misfit."""
    if type(data_type) in _INTEGERS:
        half = 2 ** (_INTEGERS[type(data_type)] - 1)
        return Annotated[int, Meta(ge=-half, le=half - 1)], None
    if isinstance(data_type, types.DoubleType):
        return float | Annotated[int, Meta(ge=-(2**53), le=2**53)], None
    if isinstance(data_type, types.FloatType):
        integers = Annotated[int, Meta(ge=-(2**24), le=2**24)]
        return Annotated[float, Meta(ge=-_FLOAT_MAX, le=_FLOAT_MAX)] | integers, None
    if isinstance(data_type, types.DecimalType):
        return decimal.Decimal, _fits_decimal(data_type.precision, data_type.scale, rounds)
    if isinstance(data_type, types.BooleanType):
        return bool, None
    if isinstance(data_type, types.DateType):
        return Annotated[str, Meta(pattern=rf"^{_DAY}\Z")], None
    if isinstance(data_type, types.TimestampType):
        seconds = Annotated[int, Meta(ge=_SECONDS_MIN, le=_SECONDS_MAX)]
        return Annotated[str, Meta(pattern=rf"^{_DAY}([T ]{_CLOCK}({_ZONE})?)?\Z")] | seconds, _in_years
    if isinstance(data_type, types.TimestampNTZType):
        return Annotated[str, Meta(pattern=rf"^{_DAY}([T ]{_CLOCK})?\Z")], None
    if isinstance(data_type, types.ArrayType):
        element, check = _quick(data_type.elementType, rounds)
        return list[element | None], check and _every(check)  # type: ignore[valid-type]
    if isinstance(data_type, types.MapType):
        value, check = _quick(data_type.valueType, rounds)
        return dict[str, value | None], check and _every_value(check)  # type: ignore[valid-type]
    if isinstance(data_type, types.StructType):
        inner = [_quick(field.dataType, rounds) for field in data_type.fields]
        fields = [
            (f"f{index}", quick | None, msgspec.field(name=field.name, default=None))
            for index, (field, (quick, _)) in enumerate(zip(data_type.fields, inner, strict=True))
        ]
        checks = [(f"f{index}", check) for index, (_, check) in enumerate(inner) if check is not None]
        return msgspec.defstruct("Struct", fields), _every_field(checks) if checks else None
    return str, None


def _closer(data_type: types.DataType, rounds: bool) -> Callable[[bytes], bytes]:
    """A function from one value's JSON text to the text Spark reads it from; raises ``Misfit`` or what msgspec does."""
    if isinstance(data_type, types.StringType):
        return _closely_string
    if isinstance(data_type, (types.DoubleType, types.FloatType)):
        return _closely_number("<d" if isinstance(data_type, types.DoubleType) else "<f")
    if isinstance(data_type, types.ArrayType):
        element = _closer(data_type.elementType, rounds)

        def close_array(raw: bytes) -> bytes:
            if raw == b"null":
                return raw
            return b"[" + b",".join(element(bytes(each)) for each in _RAW_ELEMENTS.decode(raw)) + b"]"

        return close_array
    if isinstance(data_type, types.MapType):
        value = _closer(data_type.valueType, rounds)
        return _closely_object(lambda name: value)
    if isinstance(data_type, types.StructType):
        known = {field.name: _closer(field.dataType, rounds) for field in data_type.fields}
        return _closely_object(known.get)
    quick, check = _quick(data_type, rounds)
    decode = msgspec.json.Decoder(quick | None).decode

    def close(raw: bytes) -> bytes:
        found = decode(raw)
        if found is not None and check is not None and not check(found):
            raise Misfit
        return raw

    return close


def _closely_string(raw: bytes) -> bytes:
    if raw == b"null":
        return raw
    if raw[:1] != b'"':
        return msgspec.json.encode(raw.decode())
    _STRING.decode(raw)
    return raw


def _closely_number(form: str) -> Callable[[bytes], bytes]:
    decode = msgspec.json.Decoder(int | float | None).decode

    def close(raw: bytes) -> bytes:
        found = decode(raw)
        if found is not None:
            try:
                [held] = struct.unpack(form, struct.pack(form, found))
            except (OverflowError, struct.error):
                raise Misfit from None
            if isinstance(found, int) and held != found:
                raise Misfit
            if held == 0 and _MANTISSA.match(raw):
                raise Misfit
        return raw

    return close


def _closely_object(member: Callable[[str], Callable[[bytes], bytes] | None]) -> Callable[[bytes], bytes]:
    def close(raw: bytes) -> bytes:
        if raw == b"null":
            return raw
        parts = []
        for name, value in _RAW_FIELDS.decode(raw).items():
            inner = member(name)
            if inner is not None:
                parts.append(msgspec.json.encode(name) + b":" + inner(bytes(value)))
        return b"{" + b",".join(parts) + b"}"

    return close


def _fits_decimal(precision: int, scale: int, rounds: bool) -> Check:
    def check(value: decimal.Decimal) -> bool:
        if not value.is_finite():
            return False
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        if abs(exponent) > EXPONENT_MAX:
            return False
        if not any(digits):
            return True
        if value.adjusted() >= precision - scale:
            return False
        while digits[-1] == 0:
            digits, exponent = digits[:-1], exponent + 1
        return rounds or exponent >= -scale

    return check


def _in_years(value: Any) -> bool:
    """Only next to the ends of the calendar can a zone lead out of it."""
    if not isinstance(value, str) or value[:5] not in ("0001-", "9999-"):
        return True
    try:
        moment = datetime.datetime.fromisoformat(value)
        if moment.tzinfo is not None:
            moment.astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return False
    return True


def _every(check: Check) -> Check:
    return lambda values: all(value is None or check(value) for value in values)


def _every_value(check: Check) -> Check:
    return lambda values: all(value is None or check(value) for value in values.values())


def _every_field(checks: Sequence[tuple[str, Check]]) -> Check:
    def check(value: Any) -> bool:
        return all((found := getattr(value, name)) is None or inner(found) for name, inner in checks)

    return check
