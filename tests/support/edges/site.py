"""A separate cluster with hub, messaging and authorities, and a device with an agent and a settings file."""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
import subprocess
import threading
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.edges.edge_agent import PROGRAM, EdgeAgent
from tests.support.hubs.hub import CRDS, HubProcess, config_map, edge_node
from tests.support.joining import join_client, pki
from tests.support.kube.cluster import Cluster
from tests.support.processes import Running, start
from tests.support.topics.messaging_service import MessagingService

from fairlead_wire.identity import authority_bundle, join_token

TOPIC = "default/telemetry"
NODE = "edge-1"
ROUTES: dict[str, Any] = {
    "apiVersion": "fairlead.dev/v1alpha1",
    "kind": "EdgeRoutes",
    "metadata": {"name": "all"},
    "spec": {
        "schemaVersion": "1.1",
        "routes": {"all": "FROM /messages/* INTO $upstream"},
        "storeAndForwardConfiguration": {"timeToLiveSecs": 360000},
    },
}
RULE: dict[str, Any] = {
    "apiVersion": "fairlead.dev/v1alpha1",
    "kind": "SyncRule",
    "metadata": {"name": "settings"},
    "spec": {"resources": [{"apiVersion": "v1", "kind": "ConfigMap", "namespaces": ["shop"]}]},
}


class Site:
    """A separate cluster with everything that belongs to it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.cluster = Cluster(folder / "cluster")
        self.messaging = MessagingService(folder / "messaging")
        self.internal = pki.Authority(folder / "internal", "internal")
        self.edges = pki.Authority(folder / "edge", "edge")

    def start(self, *, value: str) -> None:
        self.cluster.start()
        self.cluster.apply(CRDS)
        self.cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
        self.cluster.kubectl("create", "namespace", "shop")
        self.cluster.apply(edge_node(NODE))
        self.cluster.apply(RULE)
        self.cluster.apply(ROUTES)
        self.cluster.apply(config_map("prices", "shop", value=value))
        self.cluster.apply(config_map(f"only-{value}", "shop", value=value))
        self.messaging.start()
        server = self.internal.issue("hub", hosts=("127.0.0.1",))
        top = f'tls_ca = "{self.internal.certificate}"\ntls_cert = "{server.certificate}"\ntls_key = "{server.key}"\n'
        top += f'messaging_url = "{self.messaging.url}"\n'
        toml = f'[identity]\nlink_ca = "{self.edges.certificate}"\nca_cert = "{self.edges.certificate}"\n'
        self.hub = HubProcess(self.cluster, self.folder, top=top, toml=f'{toml}ca_key = "{self.edges.key}"\n')
        self.hub.config.write_text(self.hub.config.read_text().replace('"insecure"', '"mtls"'))
        self.url = self.hub.url.replace("ws://", "wss://")
        self.hub.start()

    def stop(self) -> None:
        with contextlib.suppress(AttributeError):
            self.hub.stop()
        self.messaging.stop()
        self.cluster.stop()

    def token(self, **spec: Any) -> str:
        token = join_token.make(
            secrets.token_bytes, list(authority_bundle.by_pin(self.internal.certificate.read_bytes()))
        )
        self.cluster.apply(join_client.join_token_object(token, node=NODE, **spec))
        return token.text

    def numbers(self) -> list[int]:
        """The numbers of the messages in the topic, in order."""
        found: list[int] = []
        start: str | None = None
        namespace, name = TOPIC.split("/")
        while True:
            request = urllib.request.Request(
                f"{self.messaging.url}/v1/namespaces/{namespace}/topics/{name}/poll",
                data=json.dumps({"startFrom": start, "inclusive": False, "limit": 1000}).encode(),
                headers={"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=60) as response:
                page = json.loads(response.read())
            found += [json.loads(base64.b64decode(each["payload"]))["body"]["n"] for each in page]
            if len(page) < 1000:
                return found
            start = page[-1]["id"]


class Device(EdgeAgent):
    """An agent with a settings file, which the commands change."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        super().__init__(folder, "")
        self.config = folder / "edge.toml"
        self.config.write_text(f'data_dir = "{folder}/data"\nhttp_listen = "127.0.0.1:{self.port}"\n')
        self._settings = {}
        self.program = [str(PROGRAM)]

    def launch(self) -> Running:
        command = [str(PROGRAM), "edge", "run", "--config", str(self.config)]
        self.running = start(self.node, command, self.log, environ={"PATH": "/usr/bin:/bin"})
        return self.running

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        return super().ask(method, path, body, Authorization=f"Bearer {self.token()}", **headers)

    def command(self, name: str, url: str, token: str, *more: str) -> subprocess.CompletedProcess[str]:
        given = [str(PROGRAM), "edge", name, url, "--token-file", "-", "--config", str(self.config), *more]
        environ = {"PATH": "/usr/bin:/bin"}
        return subprocess.run(given, input=token, capture_output=True, text=True, timeout=280, env=environ)

    def connected(self) -> bool:
        return bool(self.get("/v1/status")[1]["link"]["state"] == "connected")

    def publish(self, number: int) -> tuple[int, Any]:
        message = {"source": "/messages/modules/m/outputs/o", "body": {"n": number}}
        return self.ask("POST", "/v1/messages", {"messages": [message]}, **{"Idempotency-Key": f"k{number}"})


class Producer:
    """Publishes 0, 1, 2 … until it is stopped; retries each until it is accepted."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.accepted: list[int] = []
        self.refusals: set[tuple[int, str]] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(0.01):
            with contextlib.suppress(OSError):  # it is started or opened anew
                status, body = self._device.publish(number)
                if status == 200:
                    self.accepted.append(number)
                    number += 1
                else:
                    self.refusals.add((status, body["error"]["code"]))

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(100)
