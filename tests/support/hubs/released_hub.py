"""The hub of a release, as its Pod would run it: files of its volumes in a folder, its own account, its own hub.toml.

    helm install ─▶ Secrets, ConfigMap, roles on a real API server ─▶ volumes written here ─▶ fairlead hub run

Only the kubelet is missing; `make e2e` has one.
"""

from __future__ import annotations

import base64
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.hubs.hub import HubProcess
from tests.support.kube.charts import CHARTS, helm_with
from tests.support.kube.cluster import Cluster

RELEASE = "fairlead"
PLACES = {"tls": "tls", "authority": "authority"}
MOUNTED = "/etc/fairlead"


def install(cluster: Cluster, namespace: str, values: Mapping[str, Any]) -> None:
    """The definitions are there already."""
    cluster.kubectl("create", "namespace", namespace)
    arguments = ("install", RELEASE, str(CHARTS / "fairlead"), "-n", namespace, "--skip-crds")
    helm_with(values, *arguments, kubeconfig=cluster.kubeconfig)


class ReleasedHub(HubProcess):
    """A hub installed in `namespace`; its volumes are below `folder`."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        super().__init__(cluster, folder)
        self._cluster, self._namespace = cluster, namespace
        self.url = f"wss://127.0.0.1:{self.link_port}"
        deployment = self._object("deployment", f"{RELEASE}-hub")
        for volume in deployment["spec"]["template"]["spec"]["volumes"]:
            if volume["name"] in PLACES:
                self._write_volume(volume, folder / PLACES[volume["name"]])
        self._write_settings(folder)

    def _object(self, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            self._cluster.kubectl("get", kind, name, "-n", self._namespace, "-o", "json")
        )
        return found

    def _write_volume(self, volume: Mapping[str, Any], folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        for source in volume["projected"]["sources"] if "projected" in volume else [volume]:
            secret = source["secret"]
            data = self._object("secret", secret.get("secretName") or secret["name"])["data"]
            items = secret.get("items") or [{"key": key, "path": key} for key in data]
            for item in items:
                path = folder / item["path"]
                path.touch(mode=0o600)
                path.write_bytes(base64.b64decode(data[item["key"]]))

    def _write_settings(self, folder: Path) -> None:
        """hub.toml of the ConfigMap with folders and ports of this machine; a kubeconfig with the account's token."""
        token = self._cluster.kubectl("create", "token", f"{RELEASE}-hub", "-n", self._namespace).strip()
        kubeconfig = folder / "kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(json.dumps(self._cluster.config(token)))
        text = self._object("configmap", f"{RELEASE}-hub")["data"]["hub.toml"]
        settings = tomllib.loads(text.replace(MOUNTED, str(folder)))
        for key in ("health_listen", "messaging_url"):
            settings.pop(key, None)
        settings |= {
            "kubeconfig": str(kubeconfig),
            "namespace": self._namespace,
            "listen": f"127.0.0.1:{self.link_port}",
            "http_listen": f"127.0.0.1:{self.http_port}",
        }
        settings["identity"]["url"] = self.url
        tables = {key: value for key, value in settings.items() if isinstance(value, dict)}
        # JSON of scalars is TOML.
        lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items() if key not in tables]
        for name, table in tables.items():
            lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
        self.config.write_text("\n".join(lines) + "\n")
