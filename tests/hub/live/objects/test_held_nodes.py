"""Pause and deletion guard on a real API server, with the real hub and a real edge agent, by kubectl as people do."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.support import processes
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.hubs.hub import HubProcess, config_map, sync_rule
from tests.support.kube.cluster import Cluster

TOML = "[record]\nflush_seconds = 0.2\npending_seconds = 1\n[deletion_guard]\nremovals_max = 3\n"
WHY = "disk swap on Tuesday"


@pytest.fixture
def hub_settings() -> str:
    return TOML


def wait_until(what: str, condition: Callable[[], Any], *, seconds: float = 120.0) -> None:
    processes.wait_until(what, condition, seconds=seconds)


def rule(namespace: str) -> dict[str, Any]:
    return sync_rule("all", {"apiVersion": "v1", "kind": "ConfigMap", "namespaces": [namespace]})


def held(edge: EdgeAgent, namespace: str) -> dict[str, str]:
    """Name → value of the test's own ConfigMaps on the node."""
    status, found = edge.get(f"/api/v1/namespaces/{namespace}/configmaps")
    items = found["items"] if status == 200 else []
    return {item["metadata"]["name"]: item["data"]["v"] for item in items if item["metadata"]["name"][0] == "c"}


def edge_status(kube: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = kube.get("/apis/fairlead.dev/v1alpha1/edgenodes/edge-1").get("status", {})
    return found


def condition(kube: Cluster, type: str) -> tuple[str, str]:
    found = [each for each in edge_status(kube).get("conditions", []) if each["type"] == type]
    return (found[0]["status"], found[0]["message"]) if found else ("", "")


def fairlead(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "fairlead_cli.main", *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def record(kube: Cluster, namespace: str, name: str) -> dict[str, Any]:
    listed = kube.get(f"/apis/fairlead.dev/v1alpha1/namespaces/{namespace}/objectsyncs")
    found = [item["status"] for item in listed["items"] if item["spec"]["objectName"] == name]
    return found[0] if found else {}


def fill(kube: Cluster, namespace: str, edge: EdgeAgent, count: int) -> None:
    kube.apply([config_map(f"c{number}", namespace, v="1") for number in range(count)])
    kube.apply(rule(namespace))
    wait_until("everything is there", lambda: len(held(edge, namespace)) == count)
    wait_until("EdgeNode", lambda: edge_status(kube).get("objectsHeld", 0) >= count)


@pytest.mark.verify
def test_a_node_is_held_by_kubectl_over_a_kill_of_the_hub_and_released(
    kube: Cluster, namespace: str, hub: HubProcess, edge: EdgeAgent
) -> None:
    """Nothing moves while the annotation stands there; everybody who is asked says so; then all is there at once."""
    fill(kube, namespace, edge, 2)
    kube.kubectl("annotate", "enode", "edge-1", f"fairlead.dev/paused={WHY}")
    wait_until("the hub says held", lambda: condition(kube, "Paused") == ("True", WHY))
    kube.apply([config_map("c0", namespace, v="2"), config_map("c9", namespace, v="1")])
    kube.kubectl("delete", "configmap", "c1", "-n", namespace)
    wait_until("the record says held", lambda: record(kube, namespace, "c0").get("reason") == "Paused")
    assert record(kube, namespace, "c0")["state"] == "Pending"
    hub.kill()
    hub.start()
    wait_until("the node is back", lambda: hub.metric("fairlead_hub_pending_objects") == 3)
    assert held(edge, namespace) == {"c0": "1", "c1": "1"}
    asked = ("--hub", f"http://127.0.0.1:{hub.http_port}")
    assert f"paused: {WHY}" in fairlead("status", *asked)
    assert f"paused: {WHY}" in fairlead("status", "--kubeconfig", str(kube.kubeconfig))
    for way in (asked, ("--kubeconfig", str(kube.kubeconfig))):
        said = json.loads(fairlead("explain", "configmap/c9", "-n", namespace, "--node", "edge-1", *way, "-o", "json"))
        assert said["code"] == "paused" and WHY in said["answer"]
    assert hub.metric("fairlead_hub_nodes_paused") == 1
    assert WHY in kube.kubectl("get", "enode", "edge-1")
    kube.kubectl("annotate", "enode", "edge-1", "fairlead.dev/paused-")
    wait_until("all is there", lambda: held(edge, namespace) == {"c0": "2", "c9": "1"})
    wait_until("the record is true", lambda: record(kube, namespace, "c0").get("state") == "Synced")
    wait_until("no longer held", lambda: condition(kube, "Paused")[0] == "False")


@pytest.mark.verify
def test_a_rule_deleted_by_mistake_is_guarded_over_a_kill_of_the_hub_and_released_by_its_id(
    kube: Cluster, namespace: str, hub: HubProcess, edge: EdgeAgent
) -> None:
    """Nothing is removed, new objects still come with a new rule, and the id in the EdgeNode lets the removals go."""
    fill(kube, namespace, edge, 5)
    kube.kubectl("delete", "syncrule", "all")
    wait_until("guarded", lambda: condition(kube, "DeletionGuard")[0] == "True")
    brake = edge_status(kube)["deletionGuard"]
    assert brake["count"] >= 5 and f"approve-deletions={brake['id']}" in condition(kube, "DeletionGuard")[1]
    hub.kill()
    hub.start()
    wait_until("the node is back", lambda: hub.metric("fairlead_hub_nodes_connected") == 1)
    assert len(held(edge, namespace)) == 5 and hub.metric("fairlead_hub_nodes_deletion_guard") == 1
    asked = ("--hub", f"http://127.0.0.1:{hub.http_port}")
    wait_until("known", lambda: f"deletion guard: {brake['count']} deletions stopped" in fairlead("status", *asked))
    explained = fairlead("explain", "configmap/c0", "-n", namespace, "--node", "edge-1", *asked)
    assert "kubectl annotate enode edge-1" in explained
    wait_until("the warning", lambda: "DeletionGuard" in kube.kubectl("get", "events", "-n", "default"))
    kube.kubectl("annotate", "enode", "edge-1", "fairlead.dev/approve-deletions=00000000")
    kube.kubectl("annotate", "enode", "edge-1", "--overwrite", f"fairlead.dev/approve-deletions={brake['id']}")
    wait_until("they are gone", lambda: held(edge, namespace) == {})
    wait_until("the guard is off", lambda: condition(kube, "DeletionGuard")[0] == "False")
    # The condition is False from the approval on; the field stays until the last removal is acknowledged.
    wait_until("nothing is left to approve", lambda: edge_status(kube).get("deletionGuard") is None)
