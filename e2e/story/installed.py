"""The state of an installed release, as kubectl shows it."""

from __future__ import annotations

import json
from typing import Any

from e2e.story.cluster import Cluster
from e2e.story.in_pods import AND_END
from e2e.story.manifests import SHOP


class Installed:
    """A release in its namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.namespace = namespace
        self._cluster = cluster

    def in_ingest_pod(self, script: str) -> str:
        """Run a Python program there; returns its output."""
        pod = "statefulset/fairlead-ingest"
        return self._cluster.kubectl("exec", "-n", self.namespace, pod, "--", "python3", "-c", script + AND_END)

    def pods(self, label: str) -> set[str]:
        """Ids of the Pods that are ready."""
        found = self._items(self.namespace, "pod", "-l", label)
        ready = [pod for pod in found if any(s["ready"] for s in pod["status"].get("containerStatuses", []))]
        return {pod["metadata"]["uid"] for pod in ready}

    def synced(self) -> set[str]:
        """Nodes whose record of the menu says that they have it."""
        menus = [each for each in self._items(SHOP, "objectsync") if each["spec"]["objectName"] == "menu"]
        return {menu["spec"]["nodeName"] for menu in menus if menu.get("status", {}).get("state") == "Synced"}

    def nothing_forbidden(self) -> None:
        """The chart's roles are as wide as the hub needs. Raises AssertionError."""
        log = self._cluster.kubectl("logs", "-n", self.namespace, "deployment/fairlead-hub")
        refused = [line for line in log.splitlines() if " is forbidden: " in line]
        assert not refused, f"the chart's roles are too narrow for the hub: {refused[0]}"

    def left(self) -> list[str]:
        """Names of what is in the namespace, but for what Kubernetes puts into each."""
        left = self._cluster.kubectl("get", "all,secret,configmap,role,rolebinding", "-n", self.namespace, "-o", "name")
        return [name for name in left.split() if not name.startswith("configmap/kube-root-ca.crt")]

    def hub_config(self) -> str:
        """The hub's settings as the chart wrote them."""
        path = "jsonpath={.data.hub\\.toml}"
        return self._cluster.kubectl("get", "configmap", "-n", self.namespace, "fairlead-hub", "-o", path)

    def certificates(self) -> dict[str, Any]:
        """The data of each Secret with certificates."""
        found = self._items(self.namespace, "secret", "-l", "app.kubernetes.io/component=certificates")
        return {secret["metadata"]["name"]: secret["data"] for secret in found}

    def _items(self, namespace: str, *what: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self._cluster.kubectl("get", "-n", namespace, *what, "-o", "json"))[
            "items"
        ]
        return found
