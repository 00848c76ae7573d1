"""Writes into a real API server what a hub would write, so that commands can be tested without a hub."""

from __future__ import annotations

import json
from typing import Any

from tests.support.hubs.hub import CRDS, sync_rule
from tests.support.kube.cluster import Cluster

OURS = "fairlead.dev/v1alpha1"
CONNECTED = {"connected": True, "agentVersion": "0.1.0", "objectsWanted": 2, "objectsHeld": 2}


def install(cluster: Cluster) -> None:
    """Install our definitions and a rule for ConfigMaps of namespace `act-test` only."""
    cluster.apply(CRDS)
    names = ("edgenodes", "objectsyncs", "clusterobjectsyncs", "syncrules", "edgeroutes")
    cluster.wait_established(*(f"{name}.fairlead.dev" for name in names))
    entry = {"apiVersion": "v1", "kind": "ConfigMap", "namespaces": ["act-test"]}
    cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "act-test"}}])
    cluster.apply(sync_rule("act-test", entry))


def remove(cluster: Cluster) -> None:
    """Remove what `install` and the functions below created."""
    cluster.kubectl("delete", "syncrule", "act-test", "--ignore-not-found")
    cluster.kubectl("delete", "edgenode", "act-1", "act-2", "--ignore-not-found")
    cluster.kubectl("delete", "configmaps,objectsyncs", "--all", "-n", "act-test")


def edge_node(cluster: Cluster, name: str, **status: Any) -> None:
    """An EdgeNode with this status."""
    cluster.apply({"apiVersion": OURS, "kind": "EdgeNode", "metadata": {"name": name}})
    _patch(cluster, "edgenode", name, "", CONNECTED | status)


def object_sync(cluster: Cluster, node: str, name: str, **status: Any) -> None:
    """An ObjectSync of a ConfigMap in `act-test`."""
    spec = {
        "nodeName": node,
        "objectAPIVersion": "v1",
        "objectKind": "ConfigMap",
        "objectName": name,
        "objectUID": f"uid-{name}",
    }
    metadata = {"name": f"{node}.uid-{name}", "namespace": "act-test"}
    cluster.apply({"apiVersion": OURS, "kind": "ObjectSync", "metadata": metadata, "spec": spec})
    _patch(cluster, "objectsync", metadata["name"], "act-test", status)


def instructions(cluster: Cluster, kind: str, name: str, namespace: str = "") -> dict[str, str]:
    """Fairlead's annotations of an object."""
    place = ["-n", namespace] if namespace else []
    found = json.loads(cluster.kubectl("get", kind, name, *place, "-o", "json"))["metadata"].get("annotations", {})
    return {key: value for key, value in found.items() if key.startswith("fairlead.dev/")}


def _patch(cluster: Cluster, kind: str, name: str, namespace: str, status: dict[str, Any]) -> None:
    place = ["-n", namespace] if namespace else []
    body = json.dumps({"status": status})
    cluster.kubectl("patch", kind, name, *place, "--subresource=status", "--type=merge", "-p", body)
