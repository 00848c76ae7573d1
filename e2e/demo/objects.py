"""Objects that the demo creates in the cluster with code; the others are the files of ``app``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from e2e.demo import expected


def node_manifest(name: str) -> dict[str, Any]:
    """A Node as an edge node registers: labelled as one, and as part of this demo's site."""
    labels = {
        "node-role.kubernetes.io/edge": "",
        "harbour.example/site": "demo",
        "kubernetes.io/hostname": name,
        expected.DEMO_LABEL: "true",
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def configmap(name: str, data: Mapping[str, str]) -> dict[str, Any]:
    """A ConfigMap of the harbour that every node gets."""
    labels = {"app": "pilot", expected.SHARED_LABEL: "everywhere"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": expected.NAMESPACE, "labels": labels},
        "data": dict(data),
    }
