"""Nodes are facts: frozen, and themselves only."""

from __future__ import annotations

import dataclasses

import pytest

from fairlead_edge.routes.parser import Chain, Literal, Property, parse_condition


def test_a_chain_points_at_its_last_operator() -> None:
    """Errors about the whole chain belong to the operator applied last."""
    node = parse_condition("1 + 2 - 3", [])
    assert isinstance(node, Chain)
    assert [token.kind for token, _ in node.steps] == ["+", "-"]
    assert node.token.kind == "-"


def test_nodes_do_not_change() -> None:
    """A compiled route may be shared."""
    node = parse_condition("Name", [])
    assert isinstance(node, Property) and node.name == "name"
    with pytest.raises(dataclasses.FrozenInstanceError):
        node.name = "other"  # type: ignore[misc]


def test_two_nodes_are_never_equal() -> None:
    """The same text at two places is two nodes: each has its own place."""
    first, second = parse_condition("1", []), parse_condition("1", [])
    assert isinstance(first, Literal) and first != second
