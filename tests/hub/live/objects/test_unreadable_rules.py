"""Rules that cannot be read, stored all the same (under older definitions): the real hub, a real API server, kills."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.hubs.hub import CRDS, HubProcess, config_map, edge_node, fleet, sync_rule, until
from tests.support.hubs.lax_definitions import lax
from tests.support.kube.cluster import Cluster

CONFIG_MAPS = {"apiVersion": "v1", "kind": "ConfigMap"}
BAD_DELIVERY = {"minimum_delay": 9, "maximum_delay": 1}
OURS = "/apis/fairlead.dev/v1alpha1"


@pytest.fixture
def kube(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with the definitions of earlier days; afterwards with today's."""
    cluster.apply(CRDS)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    cluster.apply([lax(CRDS, "syncrules"), lax(CRDS, "edgeroutes")])
    yield cluster
    cluster.kubectl("delete", "syncrules,edgeroutes,edgenodes,clusterobjectsyncs,nodes,leases", "--all", "--wait=true")
    cluster.apply(CRDS)


@pytest.fixture
def hub(kube: Cluster, tmp_path: Path) -> Iterator[HubProcess]:
    process = HubProcess(kube, tmp_path, toml="[record]\nflush_seconds = 0.2\npending_seconds = 1\n").start()
    yield process
    assert process.stop() == 0
    assert '"traceback"' not in (tmp_path / "hub.log").read_text()


def own(held: dict[str, Any], namespace: str) -> set[str]:
    return {key.split("/")[2] for key in held if key.startswith(f"configmaps/{namespace}/")} - {"kube-root-ca.crt"}


def maps(namespace: str, **labels: str) -> dict[str, Any]:
    selector = {"labelSelector": {"matchLabels": labels}} if labels else {}
    return {**CONFIG_MAPS, "namespaces": [namespace], **selector}


def labelled(name: str, namespace: str, **labels: str) -> dict[str, Any]:
    made = config_map(name, namespace, v="1")
    made["metadata"]["labels"] = labels
    return made


def status(kube: Cluster, plural: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = kube.get(f"{OURS}/{plural}/{name}").get("status", {})
    return found


def condition(kube: Cluster, plural: str, name: str, type: str) -> tuple[str, str]:
    found = [each for each in status(kube, plural, name).get("conditions", []) if each["type"] == type]
    return (found[0]["status"], found[0]["message"]) if found else ("", "")


def fairlead(*arguments: str, exit: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "fairlead_cli.main", *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == exit, done.stdout + done.stderr
    return done.stdout


@pytest.mark.verify
async def test_an_unreadable_rule_keeps_what_it_selected_and_delays_no_other(
    kube: Cluster, namespace: str, hub: HubProcess
) -> None:
    """Over a kill of the hub, under stricter definitions, until it is fixed; everybody who is asked says so."""
    kube.apply([edge_node("edge-1"), edge_node("edge-2", site="other")])
    kube.apply([labelled(name, namespace, app=name[0]) for name in ("a1", "a2", "b1", "b2")])
    secrets = {"apiVersion": "v1", "kind": "Secret", "namespaces": [namespace]}
    kube.kubectl("create", "secret", "generic", "s", "-n", namespace, "--from-literal=a=b")
    good, broken = sync_rule("good", maps(namespace, app="b"), secrets), sync_rule("theirs", maps(namespace, app="a"))
    broken["spec"]["nodeSelector"] = {"matchExpressions": [{"key": "site", "operator": "DoesNotExist"}]}
    kube.apply([good, broken])
    async with fleet(hub, "edge-1", "edge-2") as nodes:
        node, other = nodes["edge-1"], nodes["edge-2"]
        await until("all is there", lambda: own(node.held, namespace) == {"a1", "a2", "b1", "b2"})
        await until("its form is written down", lambda: status(kube, "syncrules", "theirs").get("lastReadable"))

        broken["spec"]["delivery"] = BAD_DELIVERY
        kube.apply([broken, sync_rule("aaa", maps(namespace), delivery=BAD_DELIVERY)])
        said = ("False", "spec.delivery.maximum_delay")
        await until("reported", lambda: condition(kube, "syncrules", "theirs", "Accepted")[1].startswith(said[1]))
        kube.kubectl("delete", "configmap", "-n", namespace, "a1", "b1")
        await until("the good rule goes on", lambda: own(node.held, namespace) == {"a1", "a2", "b2"})
        assert own(other.held, namespace) == {"b2"}, "the new rule selects nothing"

        await until("EdgeNode", lambda: condition(kube, "edgenodes", "edge-1", "RulesReadable")[0] == "False")
        assert "SyncRule theirs" in condition(kube, "edgenodes", "edge-1", "RulesReadable")[1]
        await until("the other", lambda: condition(kube, "edgenodes", "edge-2", "RulesReadable")[0] == "True")
        await until("kept", lambda: condition(kube, "edgenodes", "edge-1", "Synced")[0] == "False")
        columns = kube.kubectl("get", "syncrule")
        assert "last readable form (generation 1) stays in force" in columns
        assert "selects nothing until it is fixed" in columns
        events = kube.kubectl("get", "events", "-n", "default", "-o", "json")
        found = [each for each in json.loads(events)["items"] if each["reason"] == "Unreadable"]
        about = {each["involvedObject"]["name"] for each in found}
        assert {"theirs", "aaa"} <= about
        assert hub.metric("fairlead_hub_rules_unreadable") == 2
        for way in (("--hub", f"http://127.0.0.1:{hub.http_port}"), ("--kubeconfig", str(kube.kubeconfig))):
            everything = fairlead("status", *way)
            assert "SyncRule theirs cannot be read: spec.delivery" in everything and "SyncRule aaa" in everything
            answer = fairlead("explain", "cm/a1", "-n", namespace, "--node", "edge-1", *way)
            assert "kept" in answer and "SyncRule theirs cannot be read" in answer

        hub.kill()
        kube.apply(CRDS)
        kube.kubectl("annotate", "syncrule", "theirs", "note=unchanged specs are not judged again")
        kube.kubectl("delete", "secret", "-n", namespace, "s")
        kube.apply(labelled("a3", namespace, app="a"))
        hub.start()
        await until("as before the kill", lambda: own(node.held, namespace) == {"a1", "a2", "a3", "b2"})
        await until("the good rule goes on", lambda: f"secrets/{namespace}/s" not in node.held)
        await until("kept", lambda: hub.metric("fairlead_hub_kept_objects") == 1)
        assert condition(kube, "syncrules", "theirs", "Accepted")[0] == "False"
        await until("its status is written on", lambda: status(kube, "syncrules", "theirs")["matchedObjects"] == 2)

        broken["spec"]["delivery"] = {}
        kube.apply(broken)
        await until("mended", lambda: own(node.held, namespace) == {"a2", "a3", "b2"})
        await until("reported", lambda: condition(kube, "edgenodes", "edge-1", "RulesReadable")[0] == "True")
        kube.kubectl("delete", "syncrule", "aaa")
        await until("none", lambda: hub.metric("fairlead_hub_rules_unreadable") == 0)


async def test_a_rule_broken_while_no_hub_ran_keeps_what_it_selected(
    kube: Cluster, namespace: str, hub: HubProcess
) -> None:
    """Killed as soon as the object was delivered: the form may not have been written down yet."""
    kube.apply([edge_node("edge-1"), config_map("a", namespace, v="1")])
    rule = sync_rule("theirs", maps(namespace))
    kube.apply(rule)
    async with fleet(hub, "edge-1") as nodes:
        node = nodes["edge-1"]
        await until("there", lambda: own(node.held, namespace) == {"a"})
        hub.kill()
        rule["spec"]["delivery"] = BAD_DELIVERY
        kube.apply(rule)
        hub.start()
        await until("known as unreadable", lambda: hub.metric("fairlead_hub_rules_unreadable") == 1)
        await until("compared", lambda: hub.metric("fairlead_hub_nodes_waiting") == 0 and hub.json("/v1/nodes"))
        await until("reported", lambda: condition(kube, "syncrules", "theirs", "Accepted")[0] == "False")
        assert own(node.held, namespace) == {"a"}


async def test_routes_that_cannot_be_read_keep_only_themselves(kube: Cluster, namespace: str, hub: HubProcess) -> None:
    """The node goes on with the version it holds; what is wrong stands in the object's status."""
    kube.apply([edge_node("edge-1"), config_map("a", namespace, v="1"), sync_rule("good", maps(namespace))])
    routes: dict[str, Any] = {
        "apiVersion": "fairlead.dev/v1alpha1", "kind": "EdgeRoutes", "metadata": {"name": "main"},
        "spec": {"schemaVersion": "1.1", "routes": {"all": "FROM /messages/* INTO $upstream"},
                 "storeAndForwardConfiguration": {}},
    }  # fmt: skip
    kube.apply(routes)
    async with fleet(hub, "edge-1") as nodes:
        node, key = nodes["edge-1"], "edgeroutes.fairlead.dev//main"
        await until("there", lambda: key in node.held and own(node.held, namespace) == {"a"})
        digest = node.held[key].digest
        routes["spec"] = {**routes["spec"], "nodeSelector": {"matchExpressions": [{"key": "x", "operator": "In"}]}}
        kube.apply(routes)
        await until("reported", lambda: "spec.nodeSelector" in status(kube, "edgeroutes", "main").get("message", ""))
        hub.kill()
        hub.start()
        kube.kubectl("delete", "configmap", "-n", namespace, "a")
        await until("all else goes on", lambda: own(node.held, namespace) == set())
        assert node.held[key].digest == digest
        assert hub.metric("fairlead_hub_rules_unreadable") == 1
        found = json.loads(
            fairlead("explain", "eroutes/main", "--node", "edge-1", "--hub", f"http://127.0.0.1:{hub.http_port}",
                     "-o", "json")
        )  # fmt: skip
        assert "cannot be read" in found["answer"]
        routes["spec"] = {**routes["spec"], "nodeSelector": {}}
        kube.apply(routes)
        await until("mended", lambda: node.held[key].digest != digest)


async def test_a_version_that_is_not_served_concerns_its_rule_alone(
    kube: Cluster, namespace: str, hub: HubProcess
) -> None:
    """First in the alphabet, for no node or for all: what the good rule selects comes, changes and goes."""
    kube.apply([edge_node("edge-1"), config_map("a", namespace, v="1")])
    odd = {**maps(namespace), "apiVersion": "v2"}
    none = {"matchLabels": {"no": "such"}}
    kube.apply([sync_rule("aaa", odd, nodeSelector=none), sync_rule("aab", odd), sync_rule("good", maps(namespace))])
    async with fleet(hub, "edge-1", keep_content=True) as nodes:
        node = nodes["edge-1"]
        await until("there", lambda: own(node.held, namespace) == {"a"})
        kube.apply(config_map("a", namespace, v="2"))
        await until("changed", lambda: b'"v":"2"' in node.contents[f"configmaps/{namespace}/a"])
        kube.apply(sync_rule("aac", {**maps(namespace), "apiVersion": "v3"}))
        await until("reported", lambda: condition(kube, "syncrules", "aac", "Listed")[1].startswith("v3 ConfigMap"))
        await until("the good rule's too", lambda: condition(kube, "syncrules", "good", "Listed")[0] == "True")
        kube.kubectl("delete", "configmap", "-n", namespace, "a")
        await until("gone", lambda: own(node.held, namespace) == set())
        kube.apply(config_map("b", namespace, v="1"))
        await until("there", lambda: own(node.held, namespace) == {"b"})
        kube.kubectl("delete", "syncrule", "good")
        await until("the good rule is gone, and so is what it brought", lambda: own(node.held, namespace) == set())
