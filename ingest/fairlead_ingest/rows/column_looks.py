"""How the values of one column are checked: fast, as msgspec decodes them in C, and closely, on the text they were.

The fast look may refuse what fits and never takes what does not; the close look is exact and gives the text to read.
What the rule of a column asks is part of both: bounds and lists cost the fast look nothing.

Dates and timestamps: does Spark read a text, and does it lie in the years 1 to 9999 (UTC)? A pattern decides that, also
for the 30th of February and an offset of 19 hours, so msgspec checks it on each value while it decodes, including
values of repeated fields. What no pattern can decide, the names of time zones and the ends of the calendar, is checked
here. A zone is allowed behind seconds only, as Spark requires, except ``GMT``, which Spark ignores.
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
# How programs write them; the rest of a pattern takes these too, in three times as long.
_USUAL_DAY = "[12][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
_USUAL = rf"{_USUAL_DAY}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{{1,6}})?(?:Z|\+00:00)\Z"
DATE = rf"^(?:{_USUAL_DAY}\Z|{_DAY}\Z)"
TIMESTAMP = rf"^(?:{_USUAL}|{_DAY}(?:[T ]{_MINUTE}(?:{_SECOND}(?:{_ZONE})?| ?GMT)?)?\Z)"
TIMESTAMP_NTZ = rf"^{_DAY}(?:[T ]{_MINUTE}(?:{_SECOND})?)?\Z"
_NAMED_ZONE = re.compile(r"[A-Z_a-z]+(?:/[A-Za-z0-9_+-]+)*\Z")
# Java's own short names, and what it knows beside the zones everybody has.
_JAVA_ZONES = frozenset(
    """UT ACT AET AGT ART AST BET BST CAT CNT CST CTT EAT ECT EST HST IET IST JST MIT MST NET NST PLT PNT PRT PST SST
    VST SystemV/AST4 SystemV/AST4ADT SystemV/CST6 SystemV/CST6CDT SystemV/EST5 SystemV/EST5EDT SystemV/HST10
    SystemV/MST7 SystemV/MST7MDT SystemV/PST8 SystemV/PST8PDT SystemV/YST9 SystemV/YST9YDT""".split()  # noqa: SIM905
)
_NOT_JAVAS = frozenset(["Factory", "GMT+0", "GMT-0", "ROC", "localtime"])


def is_timestamp(value: str | int) -> bool:
    """Of what ``TIMESTAMP`` took, or of seconds since 1970: nothing beyond the calendar, and no unknown zone."""
    if not isinstance(value, str):
        return True
    # Only next to the ends of the calendar can a zone lead out of it.
    if value[:5] in ("0001-", "9999-") and not _is_in_years(value):
        return False
    if value[-1:] == "Z" and value[-2] in "0123456789. " and "/" not in value:
        return True
    named = _NAMED_ZONE.search(value)
    return named is None or is_zone(named[0])


def is_zone(name: str) -> bool:
    """The name of a time zone, as Java knows them."""
    known = _zones()
    return not known or name in known


@functools.cache
def _zones() -> frozenset[str]:
    """Empty where this machine has no list of zones: then Spark alone decides."""
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


# A decimal's exponent beyond this is in no column, and costs memory by its size.
EXPONENT_MAX = 1_000
# Of one number for a decimal column: Java needs the square of it.
DIGITS_MAX = 1_000
# Spark reads no name of a field that is longer.
NAME_CHARS_MAX = 50_000
_WIDE = decimal.Context(prec=60, Emax=EXPONENT_MAX, Emin=-EXPONENT_MAX)
_FLOAT_MIN = 1.2e-38
_MANTISSA = re.compile(rb"[-0.]*[1-9]")
# As Java's JSON reader takes it: whole groups of four, white space before each. Long runs go first, in big steps.
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
    """This value is not one the column takes; ``str()`` says what its rule has against it, empty for its type."""


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
        names = Counter(field.name.lower() for field in data_type.fields)
        for field in data_type.fields:
            if names[field.name.lower()] > 1:
                raise ValueError(f"{data_type.simpleString()}: {field.name}: named twice")
            check_type(field.dataType)
        if not names:
            raise ValueError(f"{data_type.simpleString()}: no fields")
    elif type(data_type) not in _LEAVES:
        known = "tinyint, smallint, int, bigint, float, double, decimal, boolean, string, binary, date, timestamp"
        raise ValueError(f"{data_type.simpleString()}: one of {known}, timestamp_ntz, array, map, struct")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnLook:
    """``quick``: the type of the fast look, and what it cannot see itself; ``_close`` and the rule: what is exact."""

    name: str
    quick: Any
    check: Check | None
    rule: ColumnRule
    _close: Callable[[bytes], bytes]
    _decode: Callable[[bytes], Any]

    @classmethod
    def of(cls, name: str, data_type: types.DataType, rounds: bool, rule: ColumnRule = NO_RULE) -> ColumnLook:
        quick, check = _quick(data_type, rounds) if rule is NO_RULE else _quick_ruled(data_type, rounds, rule)
        if isinstance(data_type, types.StringType) and not rule.allowed:
            # Taken over as it is: most are strings, and what is none is found by its first letter.
            quick, check = msgspec.Raw, _is_some_string if rule.required else _is_string
        elif isinstance(data_type, (types.DoubleType, types.FloatType)):
            check = _is_far_from_zero
        decode = _STRING.decode if isinstance(data_type, types.StringType) else _NUMBER.decode
        if isinstance(data_type, types.DecimalType):
            decode = _DECIMAL.decode
        return cls(name=name, quick=quick, check=check, rule=rule, _close=_closer(data_type, rounds), _decode=decode)

    @property
    def field(self) -> tuple[Any, Any]:
        """Type and default for msgspec; one that is required has none."""
        if self.rule.required:
            return self.quick, msgspec.field(name=self.name)
        if self.quick is msgspec.Raw:
            return self.quick, msgspec.field(name=self.name, default=NULL)
        return self.quick | None, msgspec.field(name=self.name, default=None)

    def close(self, raw: bytes | None) -> bytes | None:
        """From a value's JSON text (None: there is none) to the text Spark reads. Raises ``Misfit``, or ``BROKEN``."""
        if raw is None or raw == b"null":
            if self.rule.required:
                raise Misfit(REQUIRED)
            return raw
        text = self._close(raw)
        if self.rule.is_of_values and (refusal := self.rule.refusal(self._decode(text))):
            raise Misfit(refusal)
        return text


def has_floats(data_type: types.DataType, depth: int = 0) -> bool:
    """Floating point inside of a column."""
    if isinstance(data_type, types.ArrayType):
        return has_floats(data_type.elementType, depth + 1)
    if isinstance(data_type, types.MapType):
        return has_floats(data_type.valueType, depth + 1)
    if isinstance(data_type, types.StructType):
        return any(has_floats(field.dataType, depth + 1) for field in data_type.fields)
    return depth > 0 and isinstance(data_type, (types.DoubleType, types.FloatType))


def names_looked_at_once(name: str, data_type: types.DataType) -> list[str]:
    """Names of fields whose values are looked at after decoding: said twice, the first is seen by Spark alone."""
    if isinstance(data_type, types.ArrayType):
        return names_looked_at_once(name, data_type.elementType)
    if isinstance(data_type, types.MapType):
        return names_looked_at_once(name, data_type.valueType)
    if isinstance(data_type, types.StructType):
        inner = [each for field in data_type.fields for each in names_looked_at_once(field.name, field.dataType)]
        return [name, *inner] if inner else []
    return [name] if isinstance(data_type, (types.DecimalType, types.TimestampType)) else []


def _is_far_from_zero(value: float) -> bool:
    """What is smaller, or a zero with a point, may have been a number too small for its column; an integer was none."""
    return abs(value) > _FLOAT_MIN or type(value) is int


def _is_string(raw: msgspec.Raw) -> bool:
    return memoryview(raw)[0] in b'"n'


def _is_some_string(raw: msgspec.Raw) -> bool:
    return memoryview(raw)[0] == 34  # a quote


def _quick(data_type: types.DataType, rounds: bool) -> tuple[Any, Check | None]:
    """msgspec's type for a column's values, and a look at those it takes; may refuse what fits, never take a misfit."""
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
    """The same within what a rule asks."""
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
        # How most are written, without a look at each digit.
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
