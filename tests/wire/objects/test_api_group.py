"""Texts about edge nodes that several programs give."""

from __future__ import annotations

import pytest

from fairlead_wire.objects import api_group


@pytest.mark.parametrize(
    ("node", "known", "said"),
    [
        ("edge-01", ["edge-1", "shop-1"], "; did you mean edge-1? If the Node exists: kubectl label node edge-01 "),
        ("till", ["edge-1"], "edge; if the Node exists: kubectl label node till "),
        ("till", [], "edge; if the Node exists: kubectl label node till "),
    ],
)
def test_a_name_without_an_edge_node_is_told_what_may_have_been_meant(node: str, known: list[str], said: str) -> None:
    assert said in api_group.no_edge_node(node, known)
