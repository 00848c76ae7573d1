"""The rules of a contract for a column's values: required, one of a list, within bounds."""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types

REQUIRED = "required"
ALLOWED_MAX = 1_000
# Integers up to here are exact in floating point.
WHOLE_MAX = 2**53
FLOAT_MAX = 3.4028235e38
INTEGER_BITS: dict[type, int] = {types.ByteType: 8, types.ShortType: 16, types.IntegerType: 32, types.LongType: 64}

Bound = int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRule:
    """A rule; empty ``allowed`` means any value, and ``minimum`` and ``maximum`` are inclusive."""

    required: bool = False
    allowed: tuple[str | int, ...] = ()
    minimum: Bound | None = None
    maximum: Bound | None = None

    @property
    def is_of_values(self) -> bool:
        """Whether it restricts values, and not only their absence."""
        return bool(self.allowed) or self.minimum is not None or self.maximum is not None

    def refusal(self, value: Any) -> str:
        """Why a value is refused, empty if it is not."""
        if self.allowed and value not in self.allowed:
            return "not one of the allowed values"
        if self.minimum is not None and value < _beside(value, self.minimum):
            return f"below the minimum {self.minimum}"
        if self.maximum is not None and value > _beside(value, self.maximum):
            return f"above the maximum {self.maximum}"
        return ""


NO_RULE = ColumnRule()


def check_rule(rule: ColumnRule, data_type: types.DataType) -> None:
    """Raise ``ValueError`` for a rule that does not suit the type, or that no value can satisfy."""
    kind = type(data_type)
    is_whole, is_fraction = kind in INTEGER_BITS, isinstance(data_type, types.FractionalType)
    if len(rule.allowed) > ALLOWED_MAX:
        raise ValueError(f"enum: at most {ALLOWED_MAX} values")
    if rule.allowed and not (is_whole or isinstance(data_type, types.StringType)):
        raise ValueError(f"enum: allowed for strings and integers, not for {data_type.simpleString()}")
    for value in rule.allowed:
        if _is_no_integer(value) if is_whole else not isinstance(value, str):
            raise ValueError(f"enum: {value!r} is not a {data_type.simpleString()}")
    for name, bound in (("minimum", rule.minimum), ("maximum", rule.maximum)):
        if bound is None:
            continue
        if not (is_whole or is_fraction):
            raise ValueError(f"{name}: allowed for numbers, not for {data_type.simpleString()}")
        if is_whole and _is_no_integer(bound):
            raise ValueError(f"{name}: must be a whole number like the column, not {bound!r}")
        most: float = FLOAT_MAX if isinstance(data_type, types.FloatType) else math.inf
        if (
            not math.isfinite(bound)
            or abs(bound) > most
            or (is_fraction and isinstance(bound, int) and abs(bound) > WHOLE_MAX)
        ):
            raise ValueError(f"{name}: a {data_type.simpleString()} cannot hold {bound} exactly")
    low, high = limits(rule, data_type) if is_whole else (rule.minimum, rule.maximum)
    if low is not None and high is not None and low > high:
        raise ValueError(f"no {data_type.simpleString()} is between minimum and maximum")
    if is_whole:
        for value in rule.allowed:
            if not low <= value <= high:  # type: ignore[operator]
                raise ValueError(f"enum: {value} is not a {data_type.simpleString()} between minimum and maximum")


def limits(rule: ColumnRule, data_type: types.DataType) -> tuple[int, int]:
    """The smallest and largest integer that a column of integers may have."""
    half = 2 ** (INTEGER_BITS[type(data_type)] - 1)
    least = -half if rule.minimum is None else max(-half, math.ceil(rule.minimum))
    return least, half - 1 if rule.maximum is None else min(half - 1, math.floor(rule.maximum))


def _is_no_integer(value: object) -> bool:
    return not isinstance(value, int) or isinstance(value, bool)


def _beside(value: Any, bound: Bound) -> Any:
    """The bound to compare with: for a decimal exactly as written, so that 0.1 is a tenth."""
    return decimal.Decimal(str(bound)) if isinstance(value, decimal.Decimal) else bound
