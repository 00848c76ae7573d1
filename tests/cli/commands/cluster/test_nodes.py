"""`fairlead nodes`: rows; what it prints is in golden/."""

from __future__ import annotations

import secrets
from typing import Any

from tests.support.hubs.hub import CRDS, edge_node
from tests.support.kube.cluster import Cluster

from fairlead_cli.cluster.target import Target
from fairlead_cli.commands.cluster import nodes


def test_joined() -> None:
    """A Node's labels are its EdgeNode's; what is no edge Node any more is not listed."""
    edges: dict[str, dict[str, Any]] = {
        "b": {"metadata": {"name": "b", "labels": {"zone": "eu"}}},
        "a": {"metadata": {"name": "a"}},
    }
    accounts: dict[str, dict[str, Any]] = {
        "b": {"kind": "EdgeNode", "metadata": {"name": "b", "uid": "u"}, "status": {"connected": True}},
        "gone": {"metadata": {"name": "gone"}, "status": {}},
    }
    a, b = nodes.joined(edges, accounts)
    assert a["metadata"]["name"] == "a" and a["status"] == {}
    assert b["metadata"]["labels"] == {"zone": "eu"} and b["metadata"]["uid"] == "u" and b["status"]["connected"]
    assert [column.name for column in nodes.VIEW.shown(False)][:2] == ["NAME", "STATUS"]


def test_a_watch_shows_nodes_as_they_come(cluster: Cluster) -> None:
    label = f"l{secrets.token_hex(4)}"
    first, second = f"{label}-1", f"{label}-2"
    cluster.apply(CRDS)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    cluster.apply(edge_node(first, **{label: "x"}))
    try:
        target = Target(kubeconfig=cluster.kubeconfig, selector=label)
        pages = target.pages(lambda kube: nodes._followed(kube, label, frozenset()))
        assert [each["metadata"]["name"] for each in next(pages)] == [first]
        cluster.apply(edge_node(second, **{label: "x"}))
        seen: list[str] = []
        while not seen:
            seen += [each["metadata"]["name"] for each in next(pages)]
        assert seen == [second]
        pages.close()  # type: ignore[attr-defined]
    finally:
        cluster.kubectl("delete", "node", "--ignore-not-found", first, second)
