"""Objects that the API server takes and that cannot be delivered: each is parked with its reason, and harms no other.

Also other people's answers in the API server's place: a load balancer's page, nothing, half a document.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.hubs.hub import CRDS, HubProcess, config_map, edge_node, fleet, sync_rule, until
from tests.support.kube.api_front import ApiFront
from tests.support.kube.cluster import Cluster

WIDGETS = "/apis/unreadable.example.com/v1/namespaces/{}/gizmos"
TOML = "[record]\nflush_seconds = 0.1\n[reconcile]\ninterval_seconds = 1\n"
PAGE = b"<html><body><h1>502</h1> upstream is away</body></html>"


@pytest.fixture
def kube(cluster: Cluster) -> Iterator[Cluster]:
    cluster.apply(CRDS)
    definition = json.loads((Path(__file__).parents[2] / "widget.json").read_text().replace("widget", "gizmo"))
    text = json.dumps(definition).replace("Widget", "Gizmo").replace("example.com", "unreadable.example.com")
    cluster.apply(json.loads(text))
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    cluster.apply(edge_node("edge-1"))
    yield cluster
    cluster.kubectl("delete", "syncrules,edgeroutes,edgenodes,clusterobjectsyncs,nodes,leases", "--all", "--wait=true")
    cluster.kubectl("delete", "crd", "gizmos.unreadable.example.com")
    cluster.kubectl("delete", "clusterrole", "-l", "ours=yes")


def post(kube: Cluster, path: str, body: bytes, method: str = "POST") -> None:
    """As it is: kubectl would not send all of this."""
    request = urllib.request.Request(f"{kube.server}{path}", data=body, method=method)
    request.add_header("Authorization", f"Bearer {kube.token}")
    request.add_header("Content-Type", "application/json")
    context = ssl.create_default_context(cafile=str(kube.ca))
    with urllib.request.urlopen(request, context=context, timeout=60) as answer:
        assert answer.status < 300


def gizmo(name: str, spec: bytes) -> bytes:
    head = b'"apiVersion":"unreadable.example.com/v1","kind":"Gizmo","metadata":{"name":"%b"}' % name.encode()
    return b'{%b,"spec":%b}' % (head, spec)


def explain(hub: HubProcess, what: str, namespace: str) -> str:
    command = [sys.executable, "-m", "fairlead_cli.main", "explain", what, "-n", namespace]
    command += ["--node", "edge-1", "--hub", f"http://127.0.0.1:{hub.http_port}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stdout


def records(kube: Cluster, namespace: str) -> dict[str, dict[str, Any]]:
    found = kube.get(f"/apis/fairlead.dev/v1alpha1/namespaces/{namespace}/objectsyncs")["items"]
    found += kube.get("/apis/fairlead.dev/v1alpha1/clusterobjectsyncs")["items"]
    return {item["spec"]["objectName"]: item.get("status", {}) for item in found}


@pytest.mark.verify
async def test_an_object_nested_too_deep_is_parked_and_the_hub_lives(
    kube: Cluster, namespace: str, tmp_path: Path
) -> None:
    """In a watch, in a list, after a restart; also a name that no edge takes.  Mended, it arrives."""
    deep = b'{"a":' * 1100 + b"1" + b"}" * 1100
    role = b'{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"odd?name",'
    role += b'"labels":{"ours":"yes"}},"rules":[]}'
    hub = HubProcess(kube, tmp_path, toml=TOML).start()
    try:
        async with fleet(hub, "edge-1") as nodes:
            ours = {"labelSelector": {"matchLabels": {"ours": "yes"}}}
            gizmos = {"apiVersion": "unreadable.example.com/v1", "kind": "Gizmo", "namespaces": [namespace]}
            roles = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", **ours}
            kube.apply([sync_rule("gizmos", gizmos), sync_rule("roles", roles)])
            held = nodes["edge-1"].held
            post(kube, WIDGETS.format(namespace), gizmo("good", b"{}"))
            await until("the good one is held", lambda: len(held) == 1)
            post(kube, WIDGETS.format(namespace), gizmo("deep", deep))
            post(kube, "/apis/rbac.authorization.k8s.io/v1/clusterroles", role)

            def parked() -> bool:
                found = {name: status.get("state") for name, status in records(kube, namespace).items()}
                return found == {"good": "Synced", "deep": "Parked", "odd?name": "Parked"}

            await until("both are parked", parked)
            status = records(kube, namespace)["deep"]
            assert status["reason"] == "too_deep"
            assert "200 levels" in next(c["message"] for c in status["conditions"] if c["type"] == "Stalled")
            hub.kill()
            hub.start()
            await until("the node is back", lambda: hub.metric("fairlead_hub_nodes_connected") == 1)
            post(kube, WIDGETS.format(namespace), gizmo("later", b"{}"))
            await until("what came later is held", lambda: len(held) == 2)
            await until("and parked again", lambda: hub.metric("fairlead_hub_parked_objects") == 2)
            command = ["explain", "gizmo/deep", "-n", namespace, "--node", "edge-1"]
            command = [
                sys.executable,
                "-m",
                "fairlead_cli.main",
                *command,
                "--hub",
                f"http://127.0.0.1:{hub.http_port}",
            ]
            assert "too_deep" in explain(hub, "gizmo/deep", namespace)
            assert hub.metric("fairlead_hub_unusable_objects_total") >= 2
            assert hub.events("object_unusable")
            text = kube.kubectl("get", "events", "-n", namespace, "-o", "jsonpath={.items[*].message}")
            assert "too_deep" in text
            kube.kubectl("delete", "gizmo", "deep", "-n", namespace)
            post(kube, WIDGETS.format(namespace), gizmo("deep", b'{"a":1}'))
            await until("the mended one is held", lambda: len(held) == 3)
            await until(
                "and its record says so", lambda: records(kube, namespace).get("deep", {}).get("state") == "Synced"
            )
    finally:
        assert hub.stop() == 0
    assert '"traceback"' not in (tmp_path / "hub.log").read_text()


@pytest.mark.verify
async def test_routes_nested_too_deep_are_refused_by_name(kube: Cluster, namespace: str, tmp_path: Path) -> None:
    """EdgeRoutes of any depth: reported in their status; rules beside them have theirs."""
    deep = b'{"a":' * 1100 + b"1" + b"}" * 1100
    hub = HubProcess(kube, tmp_path, toml=TOML).start()
    try:
        head = b'"apiVersion":"fairlead.dev/v1alpha1","kind":"EdgeRoutes","metadata":{"name":"deep"}'
        route = b'{"route":"FROM /messages/* INTO $upstream","odd":%b}' % deep
        spec = b'{"schemaVersion":"1.1","routes":{"r":%b},"storeAndForwardConfiguration":{}}' % route
        post(kube, "/apis/fairlead.dev/v1alpha1/edgeroutes", b'{%b,"spec":%b}' % (head, spec))

        def said(plural: str, name: str) -> str:
            path = "{.status.conditions[?(@.type=='Accepted')]['status', 'message']}"
            return kube.kubectl("get", plural, name, "-o", f"jsonpath={path}")

        await until("the routes are refused", lambda: said("edgeroutes", "deep").startswith("False"))
        assert "200 levels" in said("edgeroutes", "deep")
        kube.apply(sync_rule("maps", {"apiVersion": "v1", "kind": "ConfigMap", "namespaces": [namespace]}))
        await until("a rule is accepted", lambda: said("syncrules", "maps").startswith("True"))
        await until("kopf, which cannot read it, says so", lambda: hub.events("operator_restarted"))
    finally:
        assert hub.stop() == 0
    assert '"traceback"' not in (tmp_path / "hub.log").read_text()


@pytest.mark.verify
@pytest.mark.parametrize(
    "answer", [PAGE, b"", b"{}", b'{"metadata":{}}', b"[" * 5000], ids=["page", "nothing", "empty", "status", "deep"]
)
async def test_other_answers_in_the_api_servers_place(
    kube: Cluster, namespace: str, tmp_path: Path, answer: bytes
) -> None:
    """200 everywhere at once, for a while: at discovery, lists, record writes and the Lease; then all is as before."""
    kube.apply([config_map("a", namespace, n="1"), config_map("b", namespace, n="1")])
    kube.apply(sync_rule("maps", {"apiVersion": "v1", "kind": "ConfigMap", "namespaces": [namespace]}))
    async with ApiFront(kube) as front:
        config = json.loads(kube.kubectl("config", "view", "--raw", "-o", "json"))
        config["clusters"][0]["cluster"] = {"server": front.url}
        kubeconfig = tmp_path / "front.json"
        kubeconfig.write_text(json.dumps(config))
        hub = HubProcess(kube, tmp_path, toml=TOML)
        hub.config.write_text(hub.config.read_text().replace(str(kube.kubeconfig), str(kubeconfig)))
        for method in ("GET", "POST", "PATCH", "PUT", "DELETE"):
            front.answer(method, "", body=answer, times=None)
        hub.start(ready=False)
        try:
            await until("it has asked", lambda: front.seen("GET", "leases") >= 2)
            front.pass_everything()
            await until("the hub is ready", hub.is_ready, seconds=120)
            async with fleet(hub, "edge-1") as nodes:
                held = nodes["edge-1"].held
                await until("both are held", lambda: len(held) >= 2)
                await until("and recorded", lambda: records(kube, namespace).get("b", {}).get("state") == "Synced")
                for method in ("GET", "POST", "PATCH", "PUT", "DELETE"):
                    front.answer(method, "", body=answer, times=None)
                front.cut()
                seen = len(front.requests)
                await until("everything is asked again", lambda: len(front.requests) > seen + 12)
                assert len(held) >= 2, "nothing was taken away"
                front.pass_everything()
                kube.apply(config_map("c", namespace, n="1"))
                await until("what came later arrives", lambda: any("/c" in stored.path for stored in held.values()))
                await until("and is recorded", lambda: records(kube, namespace).get("c", {}).get("state") == "Synced")
        finally:
            assert await asyncio.to_thread(hub.stop) == 0
    assert '"traceback"' not in (tmp_path / "hub.log").read_text()
