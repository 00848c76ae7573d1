"""`fairlead objects`: what is asked; what it prints is in golden/."""

from __future__ import annotations

import pytest

from fairlead_cli.cluster.target import Target
from fairlead_cli.commands.cluster import objects
from fairlead_wire.objects import api_group

EVERYWHERE = [f"{api_group.ROOT}/objectsyncs", f"{api_group.ROOT}/clusterobjectsyncs"]


@pytest.mark.parametrize(
    ("node", "target", "paths"),
    [
        ("edge-1", Target(), EVERYWHERE),
        ("edge-1", Target(given_namespace="shop"), [f"{api_group.ROOT}/namespaces/shop/objectsyncs"]),
        (None, Target(given_namespace="shop"), [f"{api_group.ROOT}/namespaces/shop/objectsyncs"]),
        (None, Target(all_namespaces=True), EVERYWHERE),
    ],
)
def test_where_it_looks(node: str | None, target: Target, paths: list[str]) -> None:
    """A node's objects are in all namespaces; otherwise it is as with kubectl."""
    asked = objects._asked(node, target)
    assert [each.path for each in asked] == paths
    selectors = {(each.query or {}).get("fieldSelector") for each in asked}
    assert selectors == {f"spec.nodeName={node}" if node else None}


def test_a_record_without_a_status_is_pending() -> None:
    assert objects._state({"spec": {}}) == "Pending"
    assert objects._is_in({"status": {"state": "Parked"}}, frozenset(["Parked"]))
    assert not objects._is_in({"status": None}, frozenset(["Parked"]))
