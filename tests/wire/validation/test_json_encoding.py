"""Numbers that JSON does not have are refused, not written as null."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fairlead_wire.validation import json_encoding
from fairlead_wire.validation.json_encoding import NotJson


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (math.nan, "NaN, which is not JSON"),
        ({"body": {"v": math.nan}}, "NaN at body.v, which is not JSON"),
        ({"a": None, "values": [1.5, (2, -math.inf)]}, r"-Infinity at values\[1\]\[1\], which"),
        ([math.inf], r"Infinity at \[0\], which"),
    ],
)
def test_a_number_that_is_not_json_is_named(value: Any, said: str) -> None:
    with pytest.raises(NotJson, match=f"^{said}"):
        json_encoding.encode(value)


def test_null_and_other_numbers_are_json() -> None:
    assert json_encoding.encode({"a": None, "b": [1.5, "null"]}) == b'{"a":null,"b":[1.5,"null"]}'
