"""EdgeNodes of an older version lose their owner, on a real API server; nothing else of them changes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.hubs.hub import edge_node
from tests.support.kube.api_front import ApiFront
from tests.support.kube.cluster import Cluster

from fairlead_hub.io.cluster import edge_node_owners
from fairlead_hub.io.cluster.kube import Kube


@pytest.fixture
def owned(defined: Cluster) -> Any:
    """Two EdgeNodes that belong to their Nodes, and one that belongs to none."""
    for name in ("old-1", "old-2", "free"):
        defined.apply(edge_node(name))
        uid = defined.get(f"/api/v1/nodes/{name}")["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
        metadata = {"name": name, "annotations": {"fairlead.dev/paused": "why"}}
        if name != "free":
            metadata["ownerReferences"] = [owner]  # type: ignore[assignment]
        defined.apply({"apiVersion": "fairlead.dev/v1alpha1", "kind": "EdgeNode", "metadata": metadata})
    yield defined
    defined.kubectl("delete", "edgenodes,nodes", "--all", "--wait=true")


def metadata(kube: Cluster, name: str) -> dict[str, Any]:
    found: dict[str, Any] = kube.get(f"/apis/fairlead.dev/v1alpha1/edgenodes/{name}")["metadata"]
    return found


async def test_they_outlive_their_nodes(owned: Cluster, client: Kube, monkeypatch: pytest.MonkeyPatch) -> None:
    """In chunks; those without an owner are not written."""
    monkeypatch.setattr(edge_node_owners, "CHUNK", 1)
    before = metadata(owned, "free")["resourceVersion"]
    await edge_node_owners.drop(client)
    for name in ("old-1", "old-2", "free"):
        found = metadata(owned, name)
        assert "ownerReferences" not in found and found["annotations"]["fairlead.dev/paused"] == "why"
    assert metadata(owned, "free")["resourceVersion"] == before


async def test_without_the_right_it_is_tried_again(owned: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chart that was not upgraded: said, and nothing else waits for it; a conflict, too."""
    monkeypatch.setattr(edge_node_owners, "RETRY_SECONDS", 0.01)
    async with ApiFront(owned) as front:
        front.answer("PATCH", "edgenodes", status=403)
        front.answer("PATCH", "edgenodes", status=409)
        front.answer("GET", "edgenodes", body=b"<html>")
        async with asyncio.timeout(100):
            await edge_node_owners.drop(front.client())
    assert "ownerReferences" not in metadata(owned, "old-1")
