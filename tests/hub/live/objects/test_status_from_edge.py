"""Status reported on nodes, on a real API server: kubectl and the official client against the agent's local API.

kubectl --server=<edge> patch --subresource=status ─▶ agent (killed, away) ─▶ hub (killed) ─▶ /status of the object
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.hubs.hub import HubProcess
from tests.support.kube.assets import assets
from tests.support.kube.cluster import Cluster
from tests.support.processes import wait_until

GAUGES = "/apis/shop.example/v1/namespaces/default/gauges"
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gauges.shop.example"},
    "spec": {
        "group": "shop.example",
        "scope": "Namespaced",
        "names": {"plural": "gauges", "singular": "gauge", "kind": "Gauge", "listKind": "GaugeList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                            "status": {
                                "type": "object",
                                "properties": {
                                    "reading": {"type": "integer"},
                                    "phase": {"type": "string"},
                                    "unit": {"type": "string"},
                                    "conditions": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["type"],
                                        "items": {
                                            "type": "object",
                                            "required": ["type", "status"],
                                            "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
                                        },
                                    },
                                },
                            },
                        },
                    }
                },
            }
        ],
    },
}


def rule(*, allowed: bool = True) -> dict[str, Any]:
    entry: dict[str, Any] = {"apiVersion": "shop.example/v1", "kind": "Gauge", "namespaces": ["default"]}
    return {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "SyncRule",
        "metadata": {"name": "gauges"},
        "spec": {"resources": [{**entry, "statusFromEdge": True} if allowed else entry]},
    }


def gauge(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "shop.example/v1",
        "kind": "Gauge",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"place": "till"},
    }


class Site:
    """Agents of two nodes, and what the cluster and they say of a gauge."""

    def __init__(self, kube: Cluster, hub: HubProcess, folder: Path) -> None:
        self.kube, self.hub, self._folder = kube, hub, folder
        self.edges = {name: self._agent(name) for name in ("edge-1", "edge-2")}

    def _agent(self, name: str) -> EdgeAgent:
        (self._folder / name).mkdir()
        return EdgeAgent(self._folder / name, self.hub.url, node=name).start()

    def make(self, name: str) -> str:
        """A new gauge, once both nodes may report of it; returns its UID."""
        self.kube.apply(gauge(name))
        uid = str(self.kube.get(f"{GAUGES}/{name}")["metadata"]["uid"])
        for edge in self.edges.values():
            self.wait("the node holds it", lambda edge=edge: self.shown(edge, name)["metadata"]["uid"] == uid)
            self.wait("the node knows the rule", lambda edge=edge: self.patch(edge, name, {})[0] == 200)
        return uid

    def shown(self, edge: EdgeAgent, name: str) -> dict[str, Any]:
        status, body = edge.get(f"{GAUGES}/{name}")
        return body if status == 200 else {"metadata": {"uid": ""}}

    def patch(self, edge: EdgeAgent, name: str, status: Any) -> tuple[int, Any]:
        kind = {"Content-Type": "application/merge-patch+json"}
        return edge.ask("PATCH", f"{GAUGES}/{name}/status", {"status": status}, **kind)

    def apply(self, edge: EdgeAgent, name: str, status: Any, manager: str, query: str = "") -> tuple[int, Any]:
        kind = {"Content-Type": "application/apply-patch+yaml"}
        body = {"apiVersion": "shop.example/v1", "kind": "Gauge", "metadata": {"name": name}, "status": status}
        return edge.ask("PATCH", f"{GAUGES}/{name}/status?fieldManager={manager}{query}", body, **kind)

    def in_cluster(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.kube.get(f"{GAUGES}/{name}").get("status", {})
        return found

    def report(self, edge: EdgeAgent, name: str) -> str:
        annotations = self.shown(edge, name)["metadata"].get("annotations", {})
        return str(annotations.get("fairlead.dev/status-report", ""))

    def kubectl(self, edge: EdgeAgent, *arguments: str, text: str | None = None) -> tuple[int, str]:
        command = [str(assets("kubectl") / "kubectl"), "--server", edge.url, *arguments]
        environ = {"HOME": str(self._folder), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            command, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, env=environ
        )
        return done.returncode, done.stdout

    def wait(self, what: str, condition: Any) -> Any:
        return wait_until(what, condition, seconds=120)


@pytest.fixture
def nodes() -> tuple[str, ...]:
    return ("edge-1", "edge-2")


@pytest.fixture
def site(kube: Cluster, hub: HubProcess, tmp_path: Path) -> Iterator[Site]:
    kube.apply(DEFINITION)
    kube.kubectl("wait", "--for=condition=Established", "crd/gauges.shop.example", "--timeout=120s")
    kube.apply(rule())
    made = Site(kube, hub, tmp_path)
    yield made
    for edge in made.edges.values():
        if edge.running is not None and edge.running.alive:
            assert edge.stop() == 0
    kube.kubectl("delete", "syncrules,nodes", "--all")
    kube.kubectl("delete", "crd", "gauges.shop.example")
    records = "/apis/fairlead.dev/v1alpha1/objectsyncs"
    made.wait("its records are gone", lambda: not kube.get(records)["items"])


@pytest.mark.verify
def test_what_is_reported_on_a_node_is_in_the_cluster(site: Site) -> None:
    """By kubectl, merge and apply, and the official client; over kill -9 of agent and hub; and only by a rule."""
    one, two = site.edges["edge-1"], site.edges["edge-2"]
    uid = site.make("g1")

    code, said = site.kubectl(
        one, "patch", "gauge", "g1", "--subresource=status", "--type=merge", "-p", '{"status": {"reading": 7}}'
    )
    assert code == 0, said
    assert site.shown(one, "g1")["status"] == {"reading": 7}
    site.wait("the cluster has it", lambda: site.in_cluster("g1") == {"reading": 7})
    site.wait("the node knows that", lambda: site.report(one, "g1") == "written")
    managers = {
        each["manager"]: each.get("subresource") for each in site.kube.get(f"{GAUGES}/g1")["metadata"]["managedFields"]
    }
    assert managers["fairlead-edge-edge-1"] == "status"

    # Strategic and JSON patches are refused with what to do.
    code, said = site.kubectl(one, "patch", "gauge", "g1", "--subresource=status", "-p", '{"status": {"reading": 8}}')
    assert code != 0 and "merge" in said
    # What is applied by another program adds to it.
    manifest = (
        '{"apiVersion": "shop.example/v1", "kind": "Gauge", "metadata": {"name": "g1", "namespace": "default"},'
        ' "status": {"conditions": [{"type": "Ready", "status": "True"}]}}'
    )
    code, said = site.kubectl(
        one, "apply", "--server-side", "--subresource=status", "--validate=false", "--field-manager=mapper",
        "-f", "-", text=manifest,
    )  # fmt: skip
    assert code == 0, said
    ready = {"reading": 7, "conditions": [{"type": "Ready", "status": "True"}]}
    site.wait("both are there", lambda: site.in_cluster("g1") == ready)

    # A change of the spec does not take the node's status away.
    site.kube.kubectl("patch", "gauge", "g1", "--type=merge", "-p", '{"spec": {"place": "door"}}')
    site.wait("the change is there", lambda: site.shown(one, "g1")["spec"]["place"] == "door")
    assert site.shown(one, "g1")["status"] == ready

    # The cluster writes a field; a merge patch of the node wins, as it would there.
    site.kube.kubectl("patch", "gauge", "g1", "--subresource=status", "--type=merge", "-p", '{"status": {"unit": "l"}}')
    assert site.patch(one, "g1", {"unit": "kg"})[0] == 200
    site.wait("the node's word", lambda: site.in_cluster("g1").get("unit") == "kg")

    # Another node owns other fields; what the first owns is a conflict, shown on both sides.
    assert site.patch(two, "g1", {"phase": "Busy"})[0] == 200
    site.wait("of two nodes", lambda: site.in_cluster("g1") == {**ready, "unit": "kg", "phase": "Busy"})
    assert site.patch(two, "g1", {"reading": 9})[0] == 200
    site.wait("it is refused", lambda: site.report(two, "g1").startswith("refused: conflict"))
    assert site.in_cluster("g1")["reading"] == 7
    assert "fairlead-edge-edge-1" in site.report(two, "g1")
    events = site.wait(
        "an Event says so",
        lambda: [
            each
            for each in site.kube.get("/api/v1/namespaces/default/events")["items"]
            if each["reason"] == "StatusFromEdgeRefused"
        ],
    )
    assert events[0]["involvedObject"]["uid"] == uid and "edge-2" in events[0]["message"]
    assert site.apply(two, "g1", {"reading": 9}, "other", "&force=true")[0] == 200
    site.wait("forced", lambda: site.in_cluster("g1")["reading"] == 9)
    # What the API server calls invalid is refused for good, and mended by the next.
    assert site.patch(two, "g1", {"phase": 5})[0] == 200
    site.wait("it is refused", lambda: site.report(two, "g1").startswith("refused: invalid"))
    assert site.patch(two, "g1", {"phase": "Idle"})[0] == 200
    site.wait("mended", lambda: site.in_cluster("g1")["phase"] == "Idle")

    # The first node still says a reading of its own, so that all it reports is a conflict until it leaves that out.
    assert site.patch(one, "g1", {"unit": "kg0"})[0] == 200
    site.wait("it is shown", lambda: site.report(one, "g1").startswith("refused: conflict"))
    assert site.patch(one, "g1", {"reading": None})[0] == 200
    site.wait("it goes on", lambda: site.in_cluster("g1")["unit"] == "kg0")

    # Away from the hub, with the agent killed right after its answers: the newest alone goes up.  The official client
    # sees a server of Kubernetes.  One gauge is made anew meanwhile: the old status is never on the new object.
    site.make("g2")
    site.hub.kill()
    for unit in ("kg1", "kg2", "kg3"):
        assert site.patch(one, "g1", {"unit": unit})[0] == 200
    one.kill()
    one.start()
    assert (site.shown(one, "g1")["status"]["unit"], site.report(one, "g1")) == ("kg3", "waiting")
    report_by_official_client(one.url, "g2", {"reading": 3})
    one.kill()
    site.kube.kubectl("delete", "gauge", "g2")
    site.kube.apply(gauge("g2"))
    new = site.kube.get(f"{GAUGES}/g2")["metadata"]["uid"]
    one.start()
    site.hub.start()
    site.wait("the newest", lambda: site.in_cluster("g1")["unit"] == "kg3")
    site.wait("the node holds the new one", lambda: site.shown(one, "g2")["metadata"]["uid"] == new)
    assert "status" not in site.shown(one, "g2")
    report_by_official_client(one.url, "g2", {"reading": 4})
    site.wait("the new one's", lambda: site.in_cluster("g2") == {"reading": 4})

    # The rule says no more: refused, and named.
    site.kube.apply(rule(allowed=False))
    _, body = site.wait("403", lambda: found if (found := site.patch(one, "g1", {"unit": "x"}))[0] == 403 else None)
    assert (body["kind"], body["reason"]) == ("Status", "Forbidden") and "SyncRule" in body["message"]


def report_by_official_client(url: str, name: str, status: dict[str, Any]) -> None:
    with client.ApiClient(client.Configuration(host=url)) as connection:
        api = client.CustomObjectsApi(connection)
        at = ("shop.example", "v1", "default", "gauges", name)
        merge = "application/merge-patch+json"
        found: Any = api.patch_namespaced_custom_object_status(*at, {"status": status}, _content_type=merge)
        assert found["status"] == status
        for read in (api.get_namespaced_custom_object_status, api.get_namespaced_custom_object):
            found = read(*at)
            assert found["status"] == status
