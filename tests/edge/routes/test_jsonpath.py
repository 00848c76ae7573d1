"""Paths into a body."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fairlead_edge.routes import operators
from fairlead_edge.routes.values import UNDEFINED


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("root", ("root",)),
        ("a.b.c", ("a", "b", "c")),
        ("a[0].b[12]", ("a", 0, "b", 12)),
        ("123abc", ("123abc",)),
        ("I'm%1.é", ("I'm%1", "é")),
        ("a-b.$c", ("a-b", "$c")),
    ],
)
def test_paths(path: str, steps: tuple[str | int, ...]) -> None:
    """Names joined by dots, an index behind a name."""
    assert operators.parse(path) == steps


@pytest.mark.parametrize(
    "path",
    ["", ".", "a.", ".a", "a..b", "a[", "a[]", "a[x]", "a[-1]", "a[0][1]", "[0]", "a[0]b", "12", "a.12", "a[1:2]",
     "a['b']", "a[9999999999]"],
)  # fmt: skip
def test_paths_that_are_none(path: str) -> None:
    """At most one index behind each name; no slices, quotes or negatives; a name is not a number."""
    with pytest.raises(ValueError):
        operators.parse(path)


DOCUMENT = {"a": {"b": [10, {"c": "x"}]}, "n": None}


@pytest.mark.parametrize(
    ("path", "found"),
    [("a.b[0]", 10), ("a.b[1].c", "x"), ("n", None), ("a.x", None), ("a.b[7]", None), ("a.b.c", None), ("a[0]", None),
     ("n.x", None), ("a.b[0].c", None)],
)  # fmt: skip
def test_find(path: str, found: object) -> None:
    """Nothing there is None, like a null that is there."""
    assert operators.find(DOCUMENT, operators.parse(path)) == found


@pytest.mark.parametrize(
    ("found", "expected"),
    [(1, 1.0), (2.5, 2.5), ("x", "x"), (True, True), (None, None), ({}, UNDEFINED), ([], UNDEFINED),
     (10**400, math.inf), (-(10**400), -math.inf)],
)  # fmt: skip
def test_value_of(found: Any, expected: Any) -> None:
    """Numbers become doubles, containers undefined."""
    got = operators.value_of(found)
    assert got == expected and type(got) is type(expected)
