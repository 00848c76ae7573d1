"""A hub that runs, with one connected node, for the commands that ask it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cluster import Cluster
from tests.support.hub import CRDS, HubProcess, config_map, edge_node, sync_rule
from tests.support.processes import wait_until

from fairlead_cli.simulated_node import SimulatedNode


@pytest.fixture(scope="session")
def asked_hub(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """edge-near is connected and holds two ConfigMaps of namespace cli-test; edge-far never was."""
    cluster.apply(CRDS)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    cluster.kubectl("create", "namespace", "cli-test")
    cluster.apply([edge_node("edge-near"), edge_node("edge-far")])
    cluster.apply([config_map("a", "cli-test", v="1"), config_map("b", "cli-test", v="1")])
    cluster.apply(sync_rule("cli-test", {"apiVersion": "v1", "kind": "ConfigMap", "namespaces": ["cli-test"]}))
    hub = HubProcess(cluster, tmp_path_factory.mktemp("hub"), toml="[record]\nflush_seconds = 0.1\n").start()
    node = SimulatedNode("edge-near", hub.url)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    running = asyncio.run_coroutine_threadsafe(node.run(), loop)
    wait_until("records", lambda: cluster.kubectl("get", "osync", "-n", "cli-test").count("Synced") >= 2, seconds=30)
    wait_until("account", lambda: "edge-near" in cluster.kubectl("get", "enode"), seconds=30)
    yield hub
    running.cancel()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    hub.stop()
    cluster.kubectl("delete", "node", "edge-near", "edge-far")
    cluster.kubectl("delete", "syncrule", "cli-test")
    cluster.kubectl("delete", "namespace", "cli-test", "--wait=false")


@pytest.fixture
def hub_http(asked_hub: HubProcess) -> str:
    return f"http://127.0.0.1:{asked_hub.http_port}"


@pytest.fixture
def hub_config(asked_hub: HubProcess) -> Path:
    return asked_hub.config
