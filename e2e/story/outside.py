"""An edge agent outside the cluster: certificate files out of a Secret, through the NodePort, with mutual TLS."""

from __future__ import annotations

import base64
import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from e2e.story.cluster import Cluster
from tests.support.processes import Running, free_ports, start

ROOT = Path(__file__).resolve().parents[2]
PRIVATE_MODE = 0o600
REQUEST_SECONDS = 60.0


class Outside:
    """The agent of node `name`, run on this machine from a folder."""

    def __init__(self, name: str, folder: Path, hub_url: str) -> None:
        self.name = name
        self.folder = folder
        self.hub_url = hub_url
        self.running: Running | None = None
        self._port = free_ports(1)[0]

    def take_certificate(self, cluster: Cluster, namespace: str, secret: str) -> None:
        """Write ca.crt, tls.crt and tls.key from the Secret that the chart made for this node."""
        self.folder.mkdir(parents=True, exist_ok=True)
        data = json.loads(cluster.kubectl("get", "secret", "-n", namespace, secret, "-o", "json"))["data"]
        for name in ("ca.crt", "tls.crt", "tls.key"):
            path = self.folder / name
            path.touch(mode=PRIVATE_MODE)
            path.write_bytes(base64.b64decode(data[name]))

    def start(self) -> None:
        """Run `fairlead edge run`."""
        settings = {
            "node": self.name,
            "hub_url": self.hub_url,
            "data_dir": str(self.folder / "data"),
            "http_listen": f"127.0.0.1:{self._port}",
            "tls_ca": str(self.folder / "ca.crt"),
            "tls_cert": str(self.folder / "tls.crt"),
            "tls_key": str(self.folder / "tls.key"),
        }
        config = self.folder / "edge.toml"
        # Strings in JSON are strings in TOML.
        config.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))
        program = Path(sys.executable).parent / "fairlead"
        log = self.folder / "edge.log"
        self.running = start("edge", [str(program), "edge", "run", "--config", str(config)], log, folder=ROOT)

    def stop(self) -> None:
        """SIGTERM, and wait. Safe when it never ran."""
        if self.running:
            self.running.stop()

    def tail(self) -> str:
        """The end of its log."""
        return self.running.tail() if self.running else "the agent outside was never started"

    def config_map(self, namespace: str, name: str) -> dict[str, str]:
        """The data of a ConfigMap that this edge holds, {} when it holds none."""
        try:
            found = self._call("GET", f"/api/v1/namespaces/{namespace}/configmaps/{name}")
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return {}
            raise
        data: dict[str, str] = found["data"]
        return data

    def has_routes(self) -> bool:
        """Whether it takes messages."""
        return any(each["accepted"] for each in self._call("GET", "/v1/status")["routes"].values())

    def publish(self, bodies: list[Any]) -> list[str]:
        """Publish messages; returns their ids once they are on disk."""
        messages = [{"source": "/messages/modules/story/outputs/out", "body": body} for body in bodies]
        results = self._call("POST", "/v1/messages", {"messages": messages})["results"]
        return [result["id"] for result in results]

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        token = (self.folder / "data" / "token").read_text().strip()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=REQUEST_SECONDS) as answer:
            return json.loads(answer.read())
