"""EdgeRoutes from the API to a node and back into their status: the real hub, a real agent, a real API server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from tests.support import processes
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.hubs.hub import HubProcess, fleet, until
from tests.support.kube.cluster import Cluster

from fairlead_cli.simulated_node import SimulatedNode

OURS = "/apis/fairlead.dev/v1alpha1"
UP = "FROM /messages/* INTO $upstream"
MESSAGE = {"messages": [{"source": "/messages/modules/m/outputs/o", "body": {}}]}


@pytest.fixture
def nodes() -> tuple[str, ...]:
    return ("edge-1", "edge-2")


def edge_routes(name: str, routes: dict[str, Any], **spec: Any) -> dict[str, Any]:
    manifest = {"schemaVersion": "1.1", "routes": routes, "storeAndForwardConfiguration": {"timeToLiveSecs": 60}}
    return {
        "apiVersion": "fairlead.dev/v1alpha1", "kind": "EdgeRoutes", "metadata": {"name": name},
        "spec": {**manifest, **spec},
    }  # fmt: skip


def status(kube: Cluster, name: str) -> dict[str, Any]:
    found: dict[str, Any] = kube.get(f"{OURS}/edgeroutes/{name}").get("status", {})
    return found


def row(kube: Cluster, name: str, node: str = "edge-1") -> dict[str, Any]:
    """What one node makes of it, as its EdgeNode says; {} while it has not judged the newest version."""
    generation = kube.get(f"{OURS}/edgeroutes/{name}")["metadata"]["generation"]
    rows = kube.get(f"{OURS}/edgenodes/{node}").get("status", {}).get("routes", [])
    found = [each for each in rows if each["name"] == name and each.get("observedGeneration") == generation]
    return found[0] if found else {}


def holds(node: SimulatedNode, key: str) -> bool:
    return key in node.held


def lacks(node: SimulatedNode, key: str) -> bool:
    return key not in node.held


def wait_until(what: str, condition: Callable[[], Any]) -> Any:
    return processes.wait_until(what, condition, seconds=120)


def explained(kube: Cluster, hub: HubProcess, name: str) -> set[tuple[int, str]]:
    """(exit code, code), by the hub and by the API objects alone."""
    found = set()
    for way in (("--hub", f"http://127.0.0.1:{hub.http_port}"), ("--kubeconfig", str(kube.kubeconfig))):
        command = [sys.executable, "-m", "fairlead_cli.main", "explain", name, "--node", "edge-1", "-o", "json", *way]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        found.add((done.returncode, json.loads(done.stdout)["code"]))
    return found


@pytest.mark.verify
def test_good_routes_run_from_the_first_version_on_and_its_errors_are_reported(
    kube: Cluster, hub: HubProcess, edge: EdgeAgent
) -> None:
    """Routes whose text means nothing: each is named with its place; who lags is named, too."""
    table = {
        "good": {"route": UP, "topic": "shop/alarms", "timeToLive": 60},
        "typo": "FRM /messages/* INTO $upstream",
        "late": {"route": "FROM /messages/* WHERE temp > 5 INTO $upstream", "priority": 9},
        "lost": {"route": "FROM /messages/* INTO $cloud", "topic": "shop/alarms"},
    }
    kube.apply(edge_routes("main", table))
    wait_until("the node reported", lambda: row(kube, "main"))
    found = row(kube, "main")
    assert found["acceptedRoutes"] == ["good"]
    assert {each["route"] for each in found["errors"]} == {"typo", "late", "lost"}
    assert [each["message"].partition(";")[0] for each in found["warnings"]] == [
        "spec.routes.good.timeToLive: unknown key, it has no effect"
    ]
    assert edge.ask("POST", "/v1/messages", MESSAGE)[1]["results"][0]["deliveries"]
    wait_until("who lags", lambda: status(kube, "main")["laggingNodes"] == 1)
    columns = kube.kubectl("get", "eroutes", "main")
    assert "always text" in columns and "edge-2: the node is away" in columns
    assert explained(kube, hub, "eroutes/main") == {(1, "refused")}
    assert explained(kube, hub, "eroutes/mian") == {(1, "no_object")}
    kube.apply(edge_routes("main", {"good": {"route": UP, "topic": "shop/alarms"}}))
    wait_until("mended", lambda: row(kube, "main").get("state") == "Accepted")
    assert explained(kube, hub, "eroutes/main") == {(0, "held")}


@pytest.mark.verify
def test_a_broken_route_takes_no_running_one_down(kube: Cluster, hub: HubProcess, edge: EdgeAgent) -> None:
    """The later object comes first in the alphabet; both say what happened, and its end repairs at once."""
    kube.apply(edge_routes("shops", {"alarms": {"route": UP, "priority": 0}, "telemetry": UP}))
    wait_until("running", lambda: row(kube, "shops").get("acceptedRoutes") == ["alarms", "telemetry"])
    broken = {"alarms": "FRM /messages/* INTO $upstream", "telemetry": {"route": "FROM nowhere", "priority": 9}}
    kube.apply(edge_routes("aaa", broken))
    wait_until("reported", lambda: row(kube, "aaa"))
    wait_until("reported here too", lambda: row(kube, "shops").get("warnings"))
    assert row(kube, "shops")["acceptedRoutes"] == ["alarms", "telemetry"] and not row(kube, "shops").get("errors")
    assert {each["route"] for each in row(kube, "shops")["warnings"]} == {"alarms", "telemetry"}
    assert all("in EdgeRoutes shops runs" in each["message"] for each in row(kube, "aaa")["errors"])
    [delivery] = edge.ask("POST", "/v1/messages", MESSAGE)[1]["results"][0]["deliveries"]
    assert delivery["priority"] == 0
    kube.kubectl("delete", "eroutes", "aaa")
    wait_until("as before", lambda: row(kube, "shops") and not row(kube, "shops").get("warnings"))
    assert status(kube, "shops")["message"] == "not current: edge-2: the node is away"


@pytest.mark.verify
def test_one_name_in_two_objects_is_the_newer_format_then_the_older_object(
    kube: Cluster, hub: HubProcess, edge: EdgeAgent
) -> None:
    """Both objects and the node's EdgeNode say which one runs and why, and the messages go by it."""

    def priority() -> int:
        [delivery] = edge.ask("POST", "/v1/messages", MESSAGE)[1]["results"][0]["deliveries"]
        found: int = delivery["priority"]
        return found

    kube.apply(edge_routes("old", {"all": UP}))
    wait_until("running", lambda: row(kube, "old").get("acceptedRoutes") == ["all"])
    kube.apply(edge_routes("zzz", {"all": {"route": UP, "priority": 4}}))
    wait_until("the new format runs", lambda: row(kube, "zzz").get("acceptedRoutes") == ["all"])
    wait_until("both reported", lambda: row(kube, "old").get("errors") and row(kube, "zzz").get("warnings"))
    assert (
        "EdgeRoutes zzz also has a route all, in object form, which takes" in row(kube, "old")["errors"][0]["message"]
    )
    assert "EdgeRoutes old also has a route all; this one, in object form" in row(kube, "zzz")["warnings"][0]["message"]
    wait_until("in the objects", lambda: "object form" in status(kube, "old").get("message", ""))
    wait_until("of the owner, too", lambda: "EdgeRoutes old" in status(kube, "zzz").get("message", ""))
    assert priority() == 4
    created = datetime.fromisoformat(kube.get(f"{OURS}/edgeroutes/zzz")["metadata"]["creationTimestamp"])
    wait_until("another second", lambda: datetime.now(UTC) >= created + timedelta(seconds=1))
    kube.apply(edge_routes("aaa", {"all": {"route": UP, "priority": 2}}))
    wait_until("the younger one reported", lambda: row(kube, "aaa").get("errors"))
    assert "EdgeRoutes zzz also has a route all, created first, which takes" in row(kube, "aaa")["errors"][0]["message"]
    assert priority() == 4


@pytest.mark.verify
async def test_a_topic_is_granted_before_the_node_may_use_it(kube: Cluster, hub: HubProcess) -> None:
    """The hub is killed as soon as the node has the routes, and they are gone when it is back: what the node accepted
    meanwhile may go into its topic."""
    async with fleet(hub, "edge-1") as nodes:
        for number in range(3):
            topic, key = f"shop/t{number}", f"edgeroutes.fairlead.dev//r{number}"
            kube.apply(edge_routes(f"r{number}", {"all": {"route": UP, "topic": topic}}))
            await until("the node has it", partial(holds, nodes["edge-1"], key))
            hub.kill()
            granted = kube.get(f"{OURS}/edgenodes/edge-1")["status"]["grantedTopics"]
            assert topic in granted
            kube.kubectl("delete", "eroutes", f"r{number}")
            hub.start()
            await until("gone", partial(lacks, nodes["edge-1"], key))
            assert topic in hub.json("/v1/nodes/edge-1")["grantedTopics"]
