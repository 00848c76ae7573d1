"""The real hub as a process beside a real API server, and nodes that are simulated on real sockets.

hub = HubProcess(cluster, folder).start()
async with fleet(hub, "edge-1") as nodes: ...
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.kube.kubernetes import Kubernetes
from tests.support.processes import Running, free_ports, start, wait_until

from fairlead_cli.simulated_node import SimulatedNode

READY_SECONDS = 120.0
EDGE_LABEL = "node-role.kubernetes.io/edge"
CRDS = Path(__file__).parents[3] / "crds"


def edge_node(name: str, **labels: str) -> dict[str, Any]:
    """A core/v1 Node that Fairlead serves."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {EDGE_LABEL: "", **labels}}}


def config_map(name: str, namespace: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def sync_rule(name: str, *resources: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "fairlead.dev/v1alpha1",
        "kind": "SyncRule",
        "metadata": {"name": name},
        "spec": {"resources": list(resources), **spec},
    }


class HubProcess:
    """``fairlead hub run`` with its ports kept over restarts."""

    def __init__(self, kubernetes: Kubernetes, folder: Path, *, toml: str = "", top: str = "") -> None:
        self._folder = folder
        self.link_port, self.http_port = free_ports(2)
        self.url = f"ws://127.0.0.1:{self.link_port}"
        self.config = folder / "hub.toml"
        self.config.write_text(
            f'kubeconfig = "{kubernetes.kubeconfig}"\n'
            f'listen = "127.0.0.1:{self.link_port}"\nhttp_listen = "127.0.0.1:{self.http_port}"\n'
            f'security = "insecure"\n{top}\n{toml}\n'
        )
        self.running: Running | None = None
        self.extra: Mapping[str, str] = {}
        """Further variables of its environment."""

    def start(self, *, ready: bool = True) -> HubProcess:
        command = [sys.executable, "-m", "fairlead_cli.main", "hub", "run", "--config", str(self.config)]
        environ = {**os.environ, **self.extra} if self.extra else None
        self.running = start("hub", command, self._folder / "hub.log", environ=environ)
        if ready:
            try:
                wait_until("the hub is ready", self.is_ready, seconds=READY_SECONDS, describe=self.running.tail)
            except BaseException:
                # Left alive it would hold the Lease, and every test after this one would fail for its sake.
                self.running.kill()
                raise
        return self

    def is_ready(self) -> bool:
        assert self.running is not None
        self.running.require_alive()
        try:
            return self.text("/readyz") == "ok\n"
        except urllib.error.HTTPError:
            return False

    def text(self, path: str) -> str:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self.http_port}{path}", timeout=20) as answer:
            body: bytes = answer.read()
        return body.decode()

    def json(self, path: str) -> Any:
        return json.loads(self.text(path))

    def metric(self, name: str) -> float:
        """The sum of all samples of one metric."""
        lines = [line for line in self.text("/metrics").splitlines() if line.split("{")[0].split(" ")[0] == name]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def events(self, event: str) -> list[dict[str, Any]]:
        """Log lines of this event."""
        assert self.running is not None
        lines = (json.loads(line) for line in self.running.log.read_text().splitlines() if line.startswith("{"))
        return [line for line in lines if line["event"] == event]

    def tail(self) -> str:
        """The end of its log, for failure texts."""
        return self.running.tail() if self.running is not None else ""

    def kill(self) -> None:
        assert self.running is not None
        self.running.kill()

    def stop(self) -> int:
        assert self.running is not None
        return self.running.stop()


@contextlib.asynccontextmanager
async def fleet(hub: HubProcess, *names: str, **options: Any) -> AsyncIterator[dict[str, SimulatedNode]]:
    """Simulated nodes that run while the block does."""
    nodes = {name: SimulatedNode(name, hub.url, **options) for name in names}
    tasks = [asyncio.create_task(node.run()) for node in nodes.values()]
    try:
        yield nodes
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(
    what: str, condition: Callable[[], Any], *, seconds: float = 120.0, describe: Callable[[], str] = lambda: ""
) -> Any:
    """``wait_until`` for tests whose nodes run in the same loop: the condition is evaluated in a thread."""
    return await asyncio.to_thread(wait_until, what, condition, seconds=seconds, describe=describe)
