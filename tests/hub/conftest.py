"""What tests of the hub begin with: its core in memory; or a cluster that has our definitions, a hub, and an agent.

A module that wants other nodes or settings defines ``nodes`` or ``hub_settings`` itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.hubs.hub import CRDS, HubProcess, edge_node
from tests.support.hubs.hub_core import CONFIG_MAPS, Core
from tests.support.kube.cluster import Cluster

OURS = "syncrules,edgeroutes,edgenodes,clusterobjectsyncs,jointokens,nodes,leases"


@pytest.fixture
def kube(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with our definitions, and without our objects afterwards."""
    cluster.apply(CRDS)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    yield cluster
    cluster.kubectl("delete", OURS, "--all", "--wait=true")


@pytest.fixture
def nodes() -> tuple[str, ...]:
    """The edge nodes that are there before ``hub`` starts."""
    return ("edge-1",)


@pytest.fixture
def hub_settings() -> str:
    """Records are written soon, so that a test need not wait for them."""
    return "[record]\nflush_seconds = 0.2\npending_seconds = 1\n"


@pytest.fixture
def hub(kube: Cluster, nodes: tuple[str, ...], hub_settings: str, tmp_path: Path) -> Iterator[HubProcess]:
    """It has to end by itself, and without a defect of its own in the log."""
    kube.apply([edge_node(name) for name in nodes])
    process = HubProcess(kube, tmp_path, toml=hub_settings).start()
    yield process
    assert process.stop() == 0
    assert '"traceback"' not in (tmp_path / "hub.log").read_text()


@pytest.fixture
def edge(hub: HubProcess, tmp_path: Path) -> Iterator[EdgeAgent]:
    """The agent of node edge-1."""
    (tmp_path / "edge").mkdir()
    agent = EdgeAgent(tmp_path / "edge", hub.url, node="edge-1").start()
    yield agent
    assert agent.stop() == 0


@pytest.fixture
def core() -> Core:
    """The core of a hub with two nodes and a rule for ConfigMaps."""
    return Core("edge-1", "edge-2").rule(CONFIG_MAPS)
