"""The acting commands against the real hub and a real agent: what they ask for happens at the node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.hubs.hub import CRDS, HubProcess, config_map, edge_node, sync_rule
from tests.support.kube.cluster import Cluster
from tests.support.processes import free_ports, wait_until

from fairlead_cli.main import build

TOML = "[record]\nflush_seconds = 0.2\npending_seconds = 1\n[deletion_guard]\nremovals_max = 1\n"


@pytest.fixture
def hub(cluster: Cluster, tmp_path: Path) -> Iterator[HubProcess]:
    """With a deletion guard."""
    cluster.apply(CRDS)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    cluster.apply(edge_node("edge-1"))
    process = HubProcess(cluster, tmp_path, toml=TOML).start()
    yield process
    process.stop()
    cluster.kubectl("delete", "syncrules,edgeroutes,edgenodes,clusterobjectsyncs,nodes,leases", "--all", "--wait=true")


@pytest.fixture
def edge(hub: HubProcess, tmp_path: Path) -> Iterator[EdgeAgent]:
    (tmp_path / "edge").mkdir()
    agent = EdgeAgent(tmp_path / "edge", hub.url, node="edge-1").start()
    yield agent
    agent.stop()


def held(edge: EdgeAgent, namespace: str) -> dict[str, str]:
    status, found = edge.get(f"/api/v1/namespaces/{namespace}/configmaps")
    items = found["items"] if status == 200 else []
    return {item["metadata"]["name"]: item["data"]["v"] for item in items if item["metadata"]["name"][0] == "c"}


@pytest.mark.verify
def test_pause_resume_diff_resync_approve(cluster: Cluster, namespace: str, hub: HubProcess, edge: EdgeAgent) -> None:
    def run(*words: str) -> Result:
        return CliRunner().invoke(build(), [words[0], "--kubeconfig", str(cluster.kubeconfig), *words[1:]])

    def status() -> dict[str, Any]:
        found: dict[str, Any] = cluster.get("/apis/fairlead.dev/v1alpha1/edgenodes/edge-1").get("status", {})
        return found

    def until(what: str, expected: dict[str, str]) -> None:
        wait_until(what, lambda: held(edge, namespace) == expected, seconds=120, describe=hub.tail)

    cluster.apply([config_map(name, namespace, v="1") for name in ("c1", "c2", "c3")])
    cluster.apply(sync_rule("all", {"apiVersion": "v1", "kind": "ConfigMap", "namespaces": [namespace]}))
    until("all are held", {"c1": "1", "c2": "1", "c3": "1"})
    contents = ("diff", "edge-1", "--edge", edge.url)
    wait_until("records are written", lambda: run(*contents).exit_code == 0, seconds=120, describe=hub.tail)

    assert run("pause", "edge-1", "--reason", "disk swap").exit_code == 0
    wait_until("it is paused", lambda: status().get("paused") == "disk swap", seconds=120, describe=hub.tail)
    cluster.apply(config_map("c1", namespace, v="2"))
    wait_until("the difference is seen", lambda: run(*contents).exit_code == 1, seconds=120, describe=hub.tail)
    shown = run(*contents).stdout.splitlines()
    assert '-  v: "2"' in shown and '+  v: "1"' in shown
    assert run("resume", "edge-1").exit_code == 0
    until("what waited went", {"c1": "2", "c2": "1", "c3": "1"})

    sessions = edge.get("/v1/status")[1]["link"]["hub"], edge.log.read_text().count('"link_up"')
    assert run("resync", "edge-1").exit_code == 0
    wait_until("it came again", lambda: edge.log.read_text().count('"link_up"') > sessions[1], seconds=120)

    cluster.kubectl("delete", "syncrule", "all")
    wait_until("the guard stops", lambda: status().get("deletionGuard"), seconds=120, describe=hub.tail)
    wait_until("records say so", lambda: run("approve", "edge-1").output.count("configmap/c") == 3, seconds=120)
    assert run("approve", "edge-1").exit_code == 2 and len(held(edge, namespace)) == 3
    assert run("approve", "edge-1", "--yes").exit_code == 0
    until("they went", {})


@pytest.mark.verify
def test_the_doctor_greets_the_real_hub(hub: HubProcess, tmp_path: Path) -> None:
    """Welcomed as a node that is known; refused as one that is not, with what to do."""

    def link(node: str) -> dict[str, str]:
        config = tmp_path / f"{node}.toml"
        config.write_text(
            f'node = "{node}"\nsecurity = "insecure"\nhub_url = "{hub.url}"\ndata_dir = "{tmp_path / node}"\n'
            f'http_listen = "127.0.0.1:{free_ports(1)[0]}"\n'
        )
        done = CliRunner().invoke(build(), ["doctor", "--edge", "--config", str(config), "-o", "json"])
        found: dict[str, str] = json.loads(done.stdout)["items"][-1]
        return found

    wait_until("edge-1 is known", lambda: link("edge-1")["level"] == "ok", seconds=120, describe=hub.tail)
    assert "accepts this node" in link("edge-1")["message"]
    refused = link("edge-9")
    assert refused["check"] == "link.hello" and "(node_unknown)" in refused["message"]
    assert refused["remedy"].startswith("kubectl label node")
