"""Undefined is one value of its own."""

from __future__ import annotations

import pytest

from fairlead_edge.routes.values import Type, accepts, binary, unary

S, N, B, Z, U, D = Type.STRING, Type.NUMBER, Type.BOOL, Type.NULL, Type.UNDEFINED, Type.DYNAMIC


@pytest.mark.parametrize("operator", ["=", "!=", "<", "<=", ">", ">="])
def test_comparisons_need_one_type(operator: str) -> None:
    for left in Type:
        for right in Type:
            allowed = left is right or (D in (left, right) and U not in (left, right))
            assert binary(operator, left, right) is (B if allowed else None), (left, right)


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "%"])
def test_arithmetic_needs_numbers(operator: str) -> None:
    for left in Type:
        for right in Type:
            wanted = (D if D in (left, right) else N) if {left, right} <= {N, D} else None
            assert binary(operator, left, right) is wanted


def test_concatenation_needs_texts() -> None:
    assert [binary("||", S, each) for each in (S, D, N, B, Z, U)] == [S, S, None, None, None, None]


@pytest.mark.parametrize("operator", ["AND", "OR"])
def test_logic_is_the_same_from_both_sides(operator: str) -> None:
    """In the original a body value on the right is refused."""
    for left in Type:
        for right in Type:
            assert (binary(operator, left, right) is None) == (not {left, right} <= {B, Z, U, D})
            assert binary(operator, left, right) is binary(operator, right, left)


def test_null_in_logic() -> None:
    """null AND x is null; null OR x is x."""
    assert (binary("AND", Z, B), binary("OR", Z, B), binary("OR", Z, Z)) == (Z, B, Z)


def test_coalesce_keeps_the_type() -> None:
    assert [binary("??", *pair) for pair in ((S, S), (N, D), (D, Z), (S, N), (U, U), (U, D))] == [
        S,
        D,
        D,
        None,
        U,
        None,
    ]


def test_unary() -> None:
    assert [unary("-", each) for each in (N, D, S, B, Z, U)] == [N, D, None, None, None, None]
    assert [unary("NOT", each) for each in (B, Z, D, S, N, U)] == [B, B, B, None, None, None]


def test_accepts() -> None:
    assert accepts(N, D) and accepts(N, N) and not accepts(N, S)
