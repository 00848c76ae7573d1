"""Parses Spark's text for types and columns without Spark, so that mistakes are found before anything is started.

array<struct<lat:double,lon:double>>          temperature DOUBLE NOT NULL COMMENT 'in C', `odd name` STRING
"""

from __future__ import annotations

import re

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types
from pyspark.sql.pandas.types import from_arrow_type

from fairlead_wire.validation import mistakes

# A limit against stack overflow; real schemas are not nested as deeply.
DEPTH_MAX = 50
_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|([A-Za-z0-9_]+)|([<>(),:]))")
_SIMPLE: dict[str, types.DataType] = {
    "boolean": types.BooleanType(), "tinyint": types.ByteType(), "byte": types.ByteType(),
    "smallint": types.ShortType(), "short": types.ShortType(), "int": types.IntegerType(),
    "integer": types.IntegerType(), "bigint": types.LongType(), "long": types.LongType(), "float": types.FloatType(),
    "real": types.FloatType(), "double": types.DoubleType(), "string": types.StringType(),
    "binary": types.BinaryType(), "date": types.DateType(), "timestamp": types.TimestampType(),
    "timestamp_ltz": types.TimestampType(), "timestamp_ntz": types.TimestampNTZType(),
}  # fmt: skip
_DECIMALS = ("decimal", "dec", "numeric")
_PRECISION_MAX = 38


def type_of(text: str) -> types.DataType:
    """Parse one type. Raises ``ValueError``."""
    reader = _Reader(text)
    found = reader.type(0)
    reader.end()
    return found


def columns_of(text: str) -> types.StructType:
    """Parse a list of columns, each ``name TYPE`` or ``name: TYPE``. Raises ``ValueError``."""
    reader = _Reader(text)
    found = reader.fields("", 0)
    reader.end()
    return found


def of_arrow(data_type: pa.DataType) -> str:
    """An Arrow type as written in a contract, or Arrow's own name if Spark has no such type."""
    try:
        return from_arrow_type(data_type).simpleString()
    except PySparkException:
        return str(data_type)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._tokens: list[str] = []
        end = len(text.rstrip())
        while self._at < end:
            found = _TOKEN.match(text, self._at)
            if found is None:
                raise ValueError(f"{text[self._at :].strip()[:40]!r} cannot be part of a type")
            self._tokens.append(found[0].strip())
            self._at = found.end()
        self._at = 0

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise ValueError(f"unexpected {self._peek()!r} at the end of {self._text[:100]!r}")

    def type(self, depth: int) -> types.DataType:
        if depth > DEPTH_MAX:
            raise ValueError(f"nested deeper than {DEPTH_MAX} levels")
        name = self._next("a type").lower()
        if name in _SIMPLE:
            return _SIMPLE[name]
        if name in _DECIMALS:
            return self._decimal()
        if name in ("char", "character", "varchar"):
            self._expect("(")
            length = self._number()
            self._expect(")")
            return types.VarcharType(length) if name == "varchar" else types.CharType(length)
        if name == "array":
            self._expect("<")
            element = self.type(depth + 1)
            self._expect(">")
            return types.ArrayType(element)
        if name == "map":
            self._expect("<")
            key = self.type(depth + 1)
            self._expect(",")
            value = self.type(depth + 1)
            self._expect(">")
            return types.MapType(key, value)
        if name == "struct":
            self._expect("<")
            found = self.fields(">", depth + 1)
            self._expect(">")
            return found
        meant = mistakes.nearest(name[:40], (*_SIMPLE, *_DECIMALS, "array", "map", "struct"))
        raise ValueError(f"{name!r} is not a type of a column" + (f", did you mean {meant}?" if meant else ""))

    def fields(self, closing: str, depth: int) -> types.StructType:
        found: list[types.StructField] = []
        while self._peek() != closing:
            if found:
                self._expect(",")
            name = self._next("a name")
            if name.startswith("`"):
                name = name[1:-1].replace("``", "`")
            elif not re.fullmatch(r"[A-Za-z0-9_]+", name):
                raise ValueError(f"{name!r} is not a name of a column")
            if self._peek() == ":":
                self._at += 1
            data_type = self.type(depth)
            if self._peek().lower() == "not":
                # Accepted but not enforced: all our columns may be null.
                self._at += 1
                self._expect("null")
            if self._peek().lower() == "comment":
                self._at += 1
                _ = self._next("a comment")
                while self._peek().startswith(("'", '"')):
                    self._at += 1  # a doubled quote inside a quoted comment
            found.append(types.StructField(name, data_type))
        return types.StructType(found)

    def _decimal(self) -> types.DecimalType:
        precision, scale = 10, 0
        if self._peek() == "(":
            self._at += 1
            precision = self._number()
            if self._peek() == ",":
                self._at += 1
                scale = self._number()
            self._expect(")")
        if not 1 <= precision <= _PRECISION_MAX or not 0 <= scale <= precision:
            raise ValueError(
                f"decimal({precision},{scale}): must have 1 to {_PRECISION_MAX} digits, and no more places than digits"
            )
        return types.DecimalType(precision, scale)

    def _number(self) -> int:
        text = self._next("a number")
        if not text.isdecimal():
            raise ValueError(f"{text!r} is not a number")
        return int(text[:9])

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self, what: str) -> str:
        found = self._peek()
        if not found:
            raise ValueError(f"{self._text[:100]!r} ends where {what} should be")
        self._at += 1
        return found

    def _expect(self, token: str) -> None:
        found = self._next(repr(token))
        if found.lower() != token:
            raise ValueError(f"expected {token!r} instead of {found!r} in {self._text[:100]!r}")
