"""Checks the values of one column in two steps: a fast check while msgspec decodes them in C, and an exact check.

The fast check may reject values that fit, but never accepts misfits. The exact check works on the JSON text, and
returns the text that Spark is to read. Both include the column's rule; bounds and lists cost the fast check nothing.

A date or timestamp must be one that Spark reads, in the years 1 to 9999 (UTC). A regular expression decides that, even
for the 30th of February or an offset of 19 hours, so msgspec checks each value while it decodes, also in repeated
fields. Only names of time zones and the ends of the calendar are checked separately. A zone may only follow seconds, as
Spark requires, except ``GMT``, which Spark ignores.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import math
import re
import struct
import sys
import zoneinfo
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from pyspark.sql import types

from fairlead_ingest.rows.rules import FLOAT_MAX, INTEGER_BITS, NO_RULE, REQUIRED, ColumnRule, limits

SECONDS_MIN, SECONDS_MAX = -62_135_596_800, 253_402_300_799
_MONTHS_31, _MONTHS, _FEBRUARY = "(?:0?[13578]|1[02])", "(?:0?[1-9]|1[0-2])", "0?2"
_LEAP_YEAR = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DAY = (
    f"(?:(?!0000)[0-9]{{4}}-(?:{_MONTHS}-(?:0?[1-9]|1[0-9]|2[0-8])|(?!0?2-){_MONTHS}-(?:29|30)|{_MONTHS_31}-31)"
    f"|{_LEAP_YEAR}-{_FEBRUARY}-29)"
)
_MINUTE = r"(?:[01]?[0-9]|2[0-3]):[0-5]?[0-9]"
_SECOND = r":[0-5]?[0-9](?:\.[0-9]{1,6}0*)?"
# At most 18 hours.
_OFFSET = (
    "[+-](?:(?:0?[0-9]|1[0-7])(?::[0-5]?[0-9]|:[0-5][0-9]:[0-5][0-9])?|18(?::00?|:00:00)?"
    "|(?:0[0-9]|1[0-7])(?:[0-5][0-9]){1,2}|18(?:00){1,2})"
)
_ZONE = rf" ?(?:Z|(?:UTC|GMT|UT)?{_OFFSET}|[A-Za-z_]+(?:/[A-Za-z0-9_+-]+)*)"
# The usual forms, tried first; the rest of a pattern matches them too, but takes three times as long.
_USUAL_DAY = "[12][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
_USUAL = rf"{_USUAL_DAY}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{{1,6}})?(?:Z|\+00:00)\Z"
DATE = rf"^(?:{_USUAL_DAY}\Z|{_DAY}\Z)"
TIMESTAMP = rf"^(?:{_USUAL}|{_DAY}(?:[T ]{_MINUTE}(?:{_SECOND}(?:{_ZONE})?| ?GMT)?)?\Z)"
TIMESTAMP_NTZ = rf"^{_DAY}(?:[T ]{_MINUTE}(?:{_SECOND})?)?\Z"
_NAMED_ZONE = re.compile(r"[A-Z_a-z]+(?:/[A-Za-z0-9_+-]+)*\Z")
# Java's short names, and zones that only Java knows.
_JAVA_ZONES = frozenset(
    """UT ACT AET AGT ART AST BET BST CAT CNT CST CTT EAT ECT EST HST IET IST JST MIT MST NET NST PLT PNT PRT PST SST
    VST SystemV/AST4 SystemV/AST4ADT SystemV/CST6 SystemV/CST6CDT SystemV/EST5 SystemV/EST5EDT SystemV/HST10
    SystemV/MST7 SystemV/MST7MDT SystemV/PST8 SystemV/PST8PDT SystemV/YST9 SystemV/YST9YDT""".split()  # noqa: SIM905
)
_NOT_JAVAS = frozenset(["Factory", "GMT+0", "GMT-0", "ROC", "localtime"])


def is_timestamp(value: str | int) -> bool:
    """Whether a match of ``TIMESTAMP`` is within the calendar and has a known zone; seconds since 1970 always are."""
    if not isinstance(value, str):
        return True
    # Only near the ends of the calendar can a zone move a time out of it.
    if value[:5] in ("0001-", "9999-") and not _is_in_years(value):
        return False
    if value[-1:] == "Z" and value[-2] in "0123456789. " and "/" not in value:
        return True
    named = _NAMED_ZONE.search(value)
    return named is None or is_zone(named[0])


def is_zone(name: str) -> bool:
    """Whether Java knows a time zone of this name."""
    known = _zones()
    return not known or name in known


@functools.cache
def _zones() -> frozenset[str]:
    """Java's time zones; empty if this machine has no zone data, and then Spark alone decides."""
    held = zoneinfo.available_timezones()
    return frozenset((held | _JAVA_ZONES) - _NOT_JAVAS) if held else frozenset()


def _is_in_years(text: str) -> bool:
    try:
        moment = datetime.datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            moment.astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return False
    return True


# No column has decimals beyond this exponent, and large exponents take memory.
EXPONENT_MAX = 1_000
# Digits of one decimal; Java takes time quadratic in them.
DIGITS_MAX = 1_000
# Spark cannot read longer field names.
NAME_CHARS_MAX = 50_000
_WIDE = decimal.Context(prec=60, Emax=EXPONENT_MAX, Emin=-EXPONENT_MAX)
_FLOAT_MIN = 1.2e-38
_POINT = re.compile(rb"-?[0-9]+\.[0-9]+")
TYPE_CHARS_MAX = 60
_MANTISSA = re.compile(rb"[-0.]*[1-9]")
# Base64 as Java's JSON reader accepts it: groups of four, with white space before each. Long runs are matched first.
_BASE64 = (
    r"^(?:[A-Za-z0-9+/]{64})*+(?:[A-Za-z0-9+/]{4})*+"
    r"(?:[\x00-\x20]*+(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==))*+[\x00-\x20]*+\Z"
)
_RAW_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAW_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_STRING = msgspec.json.Decoder(str)
_NUMBER = msgspec.json.Decoder(int | float | None)
_DECIMAL = msgspec.json.Decoder(decimal.Decimal)
NULL = msgspec.Raw(b"null")
BROKEN = (msgspec.MsgspecError, UnicodeError, RecursionError)
_LEAVES = (
    *INTEGER_BITS, types.FloatType, types.DoubleType, types.DecimalType, types.BooleanType, types.StringType,
    types.BinaryType, types.DateType, types.TimestampType, types.TimestampNTZType,
)  # fmt: skip

Check = Callable[[Any], bool]


class Misfit(Exception):
    """The column cannot take this value; ``str()`` says which rule it breaks, empty if its type is wrong."""


def check_type(data_type: types.DataType) -> None:
    """Raise ``ValueError`` for a type that a column of a body cannot have."""
    if isinstance(data_type, (types.CharType, types.VarcharType)):
        raise ValueError(f"{data_type.simpleString()}: lengths are not supported; use string")
    if isinstance(data_type, types.ArrayType):
        check_type(data_type.elementType)
    elif isinstance(data_type, types.MapType):
        if type(data_type.keyType) is not types.StringType:
            raise ValueError(f"{data_type.simpleString()}: the keys of a map must be strings, as in JSON")
        check_type(data_type.valueType)
    elif isinstance(data_type, types.StructType):
        names = Counter(field.name.lower() for field in data_type.fields)
        for field in data_type.fields:
            if names[field.name.lower()] > 1:
                raise ValueError(f"{data_type.simpleString()}: {field.name}: repeated name")
            check_type(field.dataType)
        if not names:
            raise ValueError(f"{data_type.simpleString()}: no fields")
    elif type(data_type) not in _LEAVES:
        known = "tinyint, smallint, int, bigint, float, double, decimal, boolean, string, binary, date, timestamp"
        raise ValueError(f"{data_type.simpleString()}: must be one of {known}, timestamp_ntz, array, map, struct")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnCheck:
    """The checks of one column: ``quick`` (msgspec's type) and ``check`` are the fast one, ``close`` the exact one."""

    name: str
    quick: Any
    check: Check | None
    rule: ColumnRule
    type_name: str
    is_integer: bool
    _close: Callable[[bytes], bytes]
    _decode: Callable[[bytes], Any]

    @classmethod
    def of(cls, name: str, data_type: types.DataType, rounds: bool, rule: ColumnRule = NO_RULE) -> ColumnCheck:
        quick, check = _quick(data_type, rounds) if rule is NO_RULE else _quick_ruled(data_type, rounds, rule)
        if isinstance(data_type, types.StringType) and not rule.allowed:
            # Keep the raw text: most values are strings, and others are recognised by their first character.
            quick, check = msgspec.Raw, _is_some_string if rule.required else _is_string
        elif isinstance(data_type, (types.DoubleType, types.FloatType)):
            check = _is_far_from_zero
        decode = _STRING.decode if isinstance(data_type, types.StringType) else _NUMBER.decode
        if isinstance(data_type, types.DecimalType):
            decode = _DECIMAL.decode
        return cls(
            name=name,
            quick=quick,
            check=check,
            rule=rule,
            type_name=data_type.simpleString()[:TYPE_CHARS_MAX],
            is_integer=type(data_type) in INTEGER_BITS,
            _close=_closer(data_type, rounds),
            _decode=decode,
        )

    def wrong_type(self, raw: bytes) -> str:
        """The reason for a value that breaks no rule, but is not of the column's type."""
        because = ", because of its decimal point" if self.is_integer and _POINT.fullmatch(raw) else ""
        return f"is not of type {self.type_name}{because}"

    @property
    def field(self) -> tuple[Any, Any]:
        """The type and default for msgspec; a required column has no default."""
        if self.rule.required:
            return self.quick, msgspec.field(name=self.name)
        if self.quick is msgspec.Raw:
            return self.quick, msgspec.field(name=self.name, default=NULL)
        return self.quick | None, msgspec.field(name=self.name, default=None)

    def close(self, raw: bytes | None) -> bytes | None:
        """The text Spark is to read for a value's JSON text (None if absent). Raises ``Misfit`` or ``BROKEN``."""
        if raw is None or raw == b"null":
            if self.rule.required:
                raise Misfit(REQUIRED)
            return raw
        text = self._close(raw)
        if self.rule.is_of_values and (refusal := self.rule.refusal(self._decode(text))):
            raise Misfit(refusal)
        return text


def has_floats(data_type: types.DataType, depth: int = 0) -> bool:
    """Whether a nested type contains floating point numbers."""
    if isinstance(data_type, types.ArrayType):
        return has_floats(data_type.elementType, depth + 1)
    if isinstance(data_type, types.MapType):
        return has_floats(data_type.valueType, depth + 1)
    if isinstance(data_type, types.StructType):
        return any(has_floats(field.dataType, depth + 1) for field in data_type.fields)
    return depth > 0 and isinstance(data_type, (types.DoubleType, types.FloatType))


def names_checked_after_decoding(name: str, data_type: types.DataType) -> list[str]:
    """Names of fields whose values are checked after decoding, which would miss the first of a repeated field."""
    if isinstance(data_type, types.ArrayType):
        return names_checked_after_decoding(name, data_type.elementType)
    if isinstance(data_type, types.MapType):
        return names_checked_after_decoding(name, data_type.valueType)
    if isinstance(data_type, types.StructType):
        inner = [
            each for field in data_type.fields for each in names_checked_after_decoding(field.name, field.dataType)
        ]
        return [name, *inner] if inner else []
    return [name] if isinstance(data_type, (types.DecimalType, types.TimestampType)) else []


def _is_far_from_zero(value: float) -> bool:
    """Whether a number cannot have been rounded to (nearly) zero; an integer never is."""
    return abs(value) > _FLOAT_MIN or type(value) is int


def _is_string(raw: msgspec.Raw) -> bool:
    return memoryview(raw)[0] in b'"n'


def _is_some_string(raw: msgspec.Raw) -> bool:
    return memoryview(raw)[0] == 34  # a quote


def _quick(data_type: types.DataType, rounds: bool) -> tuple[Any, Check | None]:
    """The fast check: msgspec's type, and a check of decoded values. It may reject what fits, but accepts no misfit."""
    if type(data_type) in INTEGER_BITS:
        least, most = limits(NO_RULE, data_type)
        return Annotated[int, Meta(ge=least, le=most)], None
    if isinstance(data_type, types.DoubleType):
        return float | Annotated[int, Meta(ge=-(2**53), le=2**53)], None
    if isinstance(data_type, types.FloatType):
        integers = Annotated[int, Meta(ge=-(2**24), le=2**24)]
        return Annotated[float, Meta(ge=-FLOAT_MAX, le=FLOAT_MAX)] | integers, None
    if isinstance(data_type, types.DecimalType):
        return decimal.Decimal, _fits_decimal(data_type.precision, data_type.scale, rounds)
    if isinstance(data_type, types.BooleanType):
        return bool, None
    if isinstance(data_type, types.DateType):
        return Annotated[str, Meta(pattern=DATE)], None
    if isinstance(data_type, types.TimestampType):
        seconds = Annotated[int, Meta(ge=SECONDS_MIN, le=SECONDS_MAX)]
        return Annotated[str, Meta(pattern=TIMESTAMP)] | seconds, is_timestamp
    if isinstance(data_type, types.TimestampNTZType):
        return Annotated[str, Meta(pattern=TIMESTAMP_NTZ)], None
    if isinstance(data_type, types.BinaryType):
        return Annotated[str, Meta(pattern=_BASE64)], None
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


def _quick_ruled(data_type: types.DataType, rounds: bool, rule: ColumnRule) -> tuple[Any, Check | None]:
    """The fast check for a column with a rule."""
    if rule.allowed:
        return Literal[rule.allowed], None
    if type(data_type) in INTEGER_BITS:
        least, most = limits(rule, data_type)
        return Annotated[int, Meta(ge=least, le=most)], None
    if isinstance(data_type, types.DecimalType):
        fits = _fits_decimal(data_type.precision, data_type.scale, rounds)
        return decimal.Decimal, lambda value: fits(value) and not rule.refusal(value)
    if isinstance(data_type, types.FractionalType):
        is_double = isinstance(data_type, types.DoubleType)
        whole, end = 2**53 if is_double else 2**24, sys.float_info.max if is_double else FLOAT_MAX
        low = float(-end if rule.minimum is None else max(-end, rule.minimum))
        high = float(end if rule.maximum is None else min(end, rule.maximum))
        fractions = Annotated[float, Meta(ge=low, le=high)]
        first = -whole if low < -whole else math.ceil(low)
        last = whole if high > whole else math.floor(high)
        if first > last:
            return fractions, None
        return fractions | Annotated[int, Meta(ge=first, le=last)], None
    return _quick(data_type, rounds)


def _closer(data_type: types.DataType, rounds: bool) -> Callable[[bytes], bytes]:
    """The exact check: a function from a value's JSON text to the text Spark reads. Raises ``Misfit`` or ``BROKEN``."""
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
    def close(raw: bytes) -> bytes:
        found = _NUMBER.decode(raw)
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
                if len(name) > NAME_CHARS_MAX:
                    raise Misfit
                parts.append(msgspec.json.encode(name) + b":" + inner(bytes(value)))
        return b"{" + b",".join(parts) + b"}"

    return close


def _fits_decimal(precision: int, scale: int, rounds: bool) -> Check:
    beyond = decimal.Decimal(1).scaleb(precision - scale, _WIDE)
    least = -beyond
    places = [decimal.Decimal((0, (1,), -each)) for each in range(scale, -1, -1)]

    def check(value: decimal.Decimal) -> bool:
        if not value.is_finite():
            return False
        # The usual forms, without checking each digit.
        if least < value < beyond and any(map(value.same_quantum, places)):
            return True
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        if abs(exponent) > EXPONENT_MAX or len(digits) > DIGITS_MAX:
            return False
        if not any(digits):
            return True
        if value.adjusted() >= precision - scale:
            return False
        while digits[-1] == 0:
            digits, exponent = digits[:-1], exponent + 1
        return rounds or exponent >= -scale

    return check


def _every(check: Check) -> Check:
    return lambda values: all(value is None or check(value) for value in values)


def _every_value(check: Check) -> Check:
    return lambda values: all(value is None or check(value) for value in values.values())


def _every_field(checks: Sequence[tuple[str, Check]]) -> Check:
    def check(value: Any) -> bool:
        return all((found := getattr(value, name)) is None or inner(found) for name, inner in checks)

    return check
