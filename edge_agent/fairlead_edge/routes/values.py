"""Values while a condition runs: str, float, bool, None, and the undefined that logic of three values needs.

Where the type is known beforehand to be a number, NaN stands for undefined, so that arithmetic needs no tests.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class Undefined(Enum):
    """The one undefined value: a missing property, an unreadable body, a number that is none."""

    UNDEFINED = "undefined"

    def __repr__(self) -> str:
        return "UNDEFINED"


UNDEFINED: Final = Undefined.UNDEFINED
NAN: Final = float("nan")

Value = str | float | bool | None | Undefined
