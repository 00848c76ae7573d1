"""The complete path upstream with real programs: API server, hub, messaging, one edge.

with WholeLine(folder) as line:
    line.edge.publish([...]);  line.hub.kill();  line.hub.start();  line.in_topic()
"""

from __future__ import annotations

import base64
import json
import urllib.request
from pathlib import Path
from typing import Any, Self

from tests.support.edges.edge_line import ALL_PRIORITIES, EdgeProgram
from tests.support.hubs.hub import CRDS, HubProcess, edge_node
from tests.support.kube.cluster import Cluster
from tests.support.topics.messaging_service import MessagingService

POLL_LIMIT = 1000
TOPIC = "default/telemetry"


class WholeLine:
    """One of each, with the EdgeRoutes object of ``edge_line`` applied; ``with`` stops them all."""

    def __init__(self, folder: Path, *, routes: dict[str, Any] = ALL_PRIORITIES, messaging: str = "") -> None:
        """``messaging``: further settings of it, in TOML."""
        self._routes = routes
        self.cluster = Cluster(folder / "cluster")
        self.messaging = MessagingService(folder / "messaging", more=messaging)
        self._folder = folder

    def __enter__(self) -> Self:
        self.cluster.start()
        try:
            self.cluster.apply(CRDS)
            self.cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
            self.cluster.apply(edge_node("edge-1"))
            self.routes(self._routes)
            self.messaging.start()
            self.hub = HubProcess(self.cluster, self._folder, top=f'messaging_url = "{self.messaging.url}"').start()
            self.edge = EdgeProgram(self._folder / "edge", self.hub.link_port)
            self.edge.start()
            self.edge.await_routes()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for part in (getattr(self, "edge", None), getattr(self, "hub", None)):
            if part is not None:
                part.stop()
        self.messaging.stop()
        self.cluster.stop()

    def routes(self, spec: dict[str, Any]) -> None:
        """Change the EdgeRoutes object."""
        names = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "EdgeRoutes", "metadata": {"name": "all"}}
        self.cluster.apply({**names, "spec": spec})

    def in_topic(self, topic: str = TOPIC) -> list[dict[str, Any]]:
        """Every message in the topic, in order."""
        found: list[dict[str, Any]] = []
        start: str | None = None
        while True:
            page = self._poll(topic, start)
            found += [json.loads(base64.b64decode(each["payload"])) for each in page]
            if len(page) < POLL_LIMIT:
                return found
            start = page[-1]["id"]

    def _poll(self, topic: str, start: str | None) -> list[dict[str, Any]]:
        namespace, name = topic.split("/")
        request = urllib.request.Request(
            f"{self.messaging.url}/v1/namespaces/{namespace}/topics/{name}/poll",
            data=json.dumps({"startFrom": start, "inclusive": False, "limit": POLL_LIMIT}).encode(),
            headers={"Content-Type": "application/json"},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            page: list[dict[str, Any]] = json.loads(response.read())
        return page
