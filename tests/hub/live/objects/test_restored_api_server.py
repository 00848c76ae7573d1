"""The API server is restored from an older copy: versions go back, and all nodes converge by themselves."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.hubs.hub import CRDS, HubProcess, config_map, edge_node, fleet, sync_rule, until
from tests.support.kube.cluster import Cluster


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of this test alone: it is taken back in time."""
    with Cluster(tmp_path / "cluster") as running:
        running.apply(CRDS)
        running.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
        yield running


def restore(cluster: Cluster, copy: Path) -> None:
    """What a backup does: etcd's data as of the copy, then the API server on top of it."""
    cluster.kill_apiserver()
    cluster.running["etcd"].kill()
    shutil.rmtree(cluster.folder / "etcd")
    shutil.copytree(copy, cluster.folder / "etcd")
    cluster.restart_etcd()
    cluster.restart_apiserver()


@pytest.mark.process
@pytest.mark.verify
async def test_nodes_follow_the_restored_cluster(own_cluster: Cluster, tmp_path: Path) -> None:
    """Older content comes back, what was created after the copy goes, and records and Lease tell the truth again."""
    cluster = own_cluster
    cluster.kubectl("create", "namespace", "shop")
    cluster.apply([edge_node("edge-1"), config_map("old", "shop", v="1")])
    cluster.apply(sync_rule("r", {"apiVersion": "v1", "kind": "ConfigMap", "namespaces": ["shop"]}))
    hub = HubProcess(cluster, tmp_path, toml="[record]\nflush_seconds = 0.2\n").start()
    try:
        async with fleet(hub, "edge-1", keep_content=True) as nodes:
            node = nodes["edge-1"]
            await until("first sync", lambda: "configmaps/shop/old" in node.held)
            await until("record", lambda: "Synced" in cluster.kubectl("get", "osync", "-n", "shop"))
            cluster.kill_apiserver()
            cluster.running["etcd"].kill()
            shutil.copytree(cluster.folder / "etcd", tmp_path / "copy")
            cluster.restart_etcd()
            cluster.restart_apiserver()

            for number in range(20):
                cluster.apply(config_map("old", "shop", v=f"later {number}"))
            cluster.apply(config_map("new", "shop", v="1"))
            await until("the later state", lambda: "configmaps/shop/new" in node.held, seconds=120)
            await until("its content", lambda: b"later 19" in node.contents["configmaps/shop/old"])

            restore(cluster, tmp_path / "copy")
            await until("what came later is gone", lambda: "configmaps/shop/new" not in node.held, seconds=120)
            await until("the older content", lambda: b'"v":"1"' in node.contents["configmaps/shop/old"])
            live = cluster.get("/api/v1/namespaces/shop/configmaps/old")["metadata"]

            def recorded() -> bool:
                items = cluster.get("/apis/fairlead.dev/v1alpha1/namespaces/shop/objectsyncs")["items"]
                status = [item.get("status", {}) for item in items if item["spec"]["objectName"] == "old"]
                return [(s["state"], s["objectResourceVersion"]) for s in status] == [
                    ("Synced", live["resourceVersion"])
                ]

            await until("the record", recorded, seconds=120)
    finally:
        assert hub.stop() == 0
    assert '"traceback"' not in (tmp_path / "hub.log").read_text()
