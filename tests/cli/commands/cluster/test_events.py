"""`fairlead events`: which concern a node; what it prints is in golden/."""

from __future__ import annotations

import pytest

from fairlead_cli.commands.cluster import events


@pytest.mark.parametrize(
    ("about", "concerns"),
    [
        ({"kind": "EdgeNode", "name": "edge-1"}, True),
        ({"kind": "EdgeNode", "name": "edge-10"}, False),
        ({"kind": "ObjectSync", "name": "edge-1.7c"}, True),
        ({"kind": "ClusterObjectSync", "name": "edge-1.7c"}, True),
        ({"kind": "ObjectSync", "name": "edge-10.7c"}, False),
        ({"kind": "ObjectSync", "name": "edge-1.eu.7c"}, False),
        ({"kind": "EdgeRoutes", "name": "edge-1.x"}, False),
        ({}, False),
    ],
)
def test_which_concern_a_node(about: dict[str, str], concerns: bool) -> None:
    assert events._concerns({"involvedObject": about}, "edge-1") is concerns
    assert events._concerns({"involvedObject": about}, None)


def test_the_newest_is_last() -> None:
    old = {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}
    new = {"metadata": {}, "lastTimestamp": "2026-01-02T00:00:00Z"}
    assert events._sorted([new, old], None) == [old, new]
