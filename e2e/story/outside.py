"""An edge agent outside the cluster, through the NodePort with mutual TLS: files out of a Secret, or by a token."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from e2e.story import tokens
from e2e.story.cluster import Cluster
from tests.support.processes import Running, free_ports, start

ROOT = Path(__file__).resolve().parents[2]
PRIVATE_MODE = 0o600
FILES = {"ca": "ca.crt", "cert": "tls.crt", "key": "tls.key"}
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
        """Write ca.crt, tls.crt and tls.key from the Secret that the chart made for this node, and edge.toml."""
        self.folder.mkdir(parents=True, exist_ok=True)
        data = json.loads(cluster.kubectl("get", "secret", "-n", namespace, secret, "-o", "json"))["data"]
        for name in FILES.values():
            path = self.folder / name
            path.touch(mode=PRIVATE_MODE)
            path.write_bytes(base64.b64decode(data[name]))
        files = {f"tls_{name}": str(self.folder / file) for name, file in FILES.items()}
        self._write_settings({"node": self.name, "hub_url": self.hub_url, **files})

    def join(self, token: str) -> str:
        """`fairlead edge join` with this token, which completes edge.toml; returns what it says."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write_settings({})
        command = ("edge", "join", self.hub_url, "--token-file", "-", "--config", str(self.folder / "edge.toml"))
        done = tokens.run(*command, stdin=f"{token}\n")
        assert done.returncode == 0, f"fairlead {' '.join(command)} says: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self) -> None:
        """Run `fairlead edge run`."""
        command = [str(tokens.PROGRAM), "edge", "run", "--config", str(self.folder / "edge.toml")]
        self.running = start("edge", command, self.folder / "edge.log", folder=ROOT)

    def _write_settings(self, settings: dict[str, str]) -> None:
        """Strings in JSON are strings in TOML."""
        all_ways = {"data_dir": str(self.folder / "data"), "http_listen": f"127.0.0.1:{self._port}", **settings}
        text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in all_ways.items())
        (self.folder / "edge.toml").write_text(text)

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
