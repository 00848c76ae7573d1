"""An API server that asks for ten minutes of patience: the hub says so, serves on, and sees again in seconds."""

from __future__ import annotations

import urllib.error
from pathlib import Path
from random import Random

import pytest
from tests.support.hubs.hub import CRDS, HubProcess, config_map, edge_node, fleet, sync_rule, until
from tests.support.kube.cluster import Cluster
from tests.support.kube.rough_proxy import RoughProxy

INPUTS = 6


def readiness(hub: HubProcess) -> tuple[int, str]:
    try:
        return 200, hub.text("/readyz")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.verify
@pytest.mark.kube
async def test_a_long_retry_after_blinds_no_hub_for_long(tmp_path: Path) -> None:
    """Nothing is listed again; what changed meanwhile arrives, and the node never lost its session."""
    with Cluster(tmp_path / "cluster") as cluster:
        cluster.apply(CRDS)
        cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
        cluster.kubectl("create", "namespace", "shop")
        cluster.apply([edge_node("edge-1"), config_map("a", "shop", v="1")])
        cluster.apply(sync_rule("r", {"apiVersion": "v1", "kind": "ConfigMap", "namespaces": ["shop"]}))
        async with RoughProxy(cluster, tmp_path, Random(1)) as proxy:
            hub = HubProcess(proxy.kubernetes, tmp_path, toml="[record]\nflush_seconds = 0.2\n")
            await until("ready", lambda: hub.start() is not None, seconds=120)
            async with fleet(hub, "edge-1", keep_content=True) as nodes:
                node = nodes["edge-1"]
                await until("first sync", lambda: "configmaps/shop/a" in node.held)
                await until("recorded", lambda: "Synced" in cluster.kubectl("get", "osync", "-n", "shop"))
                proxy.overloaded = True
                await until("it says that it is blind", lambda: readiness(hub)[0] == 503, seconds=120)
                _, text = readiness(hub)
                assert text.count("stale: ") == INPUTS + 1 and " since 20" in text and "503" in text
                stale = hub.json("/v1/nodes")["stale"]
                assert {one["collection"] for one in stale} >= {"api/v1/nodes", "api/v1/configmaps"}
                assert hub.metric("fairlead_hub_collections_stale") == INPUTS + 1
                cluster.apply(config_map("a", "shop", v="2"))
                proxy.overloaded = False
                # Five seconds at most until it is asked again; the rest is for a busy machine.
                await until("the change", lambda: b'"v":"2"' in node.contents["configmaps/shop/a"], seconds=120)
                await until("it sees everything", lambda: readiness(hub) == (200, "ok\n"), seconds=120)
                await until("status, too", lambda: hub.metric("fairlead_hub_status_dirty") == 0, seconds=120)
                assert node.figures.connections == 1
                assert all(times == 1 for times in proxy.lists.values()), proxy.lists
            assert hub.stop() == 0
