"""What the downstream benchmarks stand on: a real API server, the real hub as a process, simulated nodes on sockets.

Lab ─ cluster (etcd + kube-apiserver)      Plant ─ one hub process, its CPU, memory and counters
    └ objects, nodes, rules by plain REST        └ nodes, directly or through a Delay (half the round trip each way)
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

from tests.support.hubs.hub import CRDS, HubProcess, edge_node
from tests.support.kube.cluster import Cluster

from benchmarks.collect import Row
from benchmarks.goals import GOALS
from fairlead_cli.simulated_node import SimulatedNode
from fairlead_hub.io.cluster import api_access
from fairlead_hub.io.cluster.api_error import ApiRefused
from fairlead_hub.io.cluster.kube import MERGE_PATCH, Kube

TICKS = os.sysconf("SC_CLK_TCK")
NAMESPACE = "bench"
CONFIG_MAPS = f"api/v1/namespaces/{NAMESPACE}/configmaps"
WRITES_AT_ONCE = 16
ROOM = "downstream"
NO_RECORDS = "[record]\nflush_seconds = 600\n"
WINDOW_1 = "[window]\nmessages = 1\n[record]\nflush_seconds = 0.01\n"
"""As the original works: one unacknowledged message, every ack recorded at once."""


def row(name: str, value: float, unit: str, met: bool, baseline: float | None = None) -> Row:
    ratio = value / baseline if baseline else None
    return Row(name=name, value=value, unit=unit, goal=GOALS[ROOM][name], met=met, baseline=baseline, ratio=ratio)


class Lab:
    """One cluster for all figures; every scenario cleans up behind itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster = Cluster(folder / "cluster")
        self.recorded_update = 0.0
        """CPU seconds of the hub for one update with its record, once that was measured; 0 before."""

    async def __aenter__(self) -> Lab:
        await asyncio.to_thread(self._prepare)
        self.kube = Kube(api_access.load(str(self.cluster.kubeconfig)))
        return self

    def _prepare(self) -> None:
        self.cluster.start()
        self.cluster.apply(CRDS)
        self.cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        self.cluster.kubectl("create", "namespace", NAMESPACE)

    async def __aexit__(self, *_: object) -> None:
        await self.kube.close()
        await asyncio.to_thread(self.cluster.stop)

    async def clean(self) -> None:
        """Nothing of an earlier scenario is left."""
        for path in (
            "apis/fairlead.dev/v1alpha1/syncrules",
            "apis/fairlead.dev/v1alpha1/edgenodes",
            "apis/fairlead.dev/v1alpha1/clusterobjectsyncs",
            f"apis/fairlead.dev/v1alpha1/namespaces/{NAMESPACE}/objectsyncs",
            CONFIG_MAPS,
            "api/v1/nodes",
        ):
            await self.kube.request("DELETE", path)

    async def create(self, path: str, bodies: Iterable[dict[str, Any]]) -> None:
        await self._all([("POST", path, body, "application/json") for body in bodies])

    async def patch(self, changes: Iterable[tuple[str, dict[str, Any]]]) -> None:
        await self._all([("PATCH", path, body, MERGE_PATCH) for path, body in changes])

    async def _all(self, requests: list[tuple[str, str, dict[str, Any], str]]) -> None:
        queue = requests[::-1]

        async def work() -> None:
            while queue:
                method, path, body, content_type = queue.pop()
                with contextlib.suppress(ApiRefused):
                    await self.kube.request(method, path, body, content_type=content_type)

        await asyncio.gather(*(work() for _ in range(WRITES_AT_ONCE)))

    async def nodes(self, count: int) -> list[str]:
        names = [f"node-{index:05}" for index in range(count)]
        await self.create("api/v1/nodes", (edge_node(name) for name in names))
        return names

    async def config_maps(self, count: int, size: int = 1000, prefix: str = "c") -> list[str]:
        names = [f"{prefix}{index:05}" for index in range(count)]
        await self.create(CONFIG_MAPS, (config_map(name, "0", size) for name in names))
        return names

    async def rule(self, **entry: Any) -> None:
        resource = {"apiVersion": "v1", "kind": "ConfigMap", "namespaces": [NAMESPACE], **entry}
        resource.setdefault("labelSelector", {"matchLabels": {"bench": "yes"}})
        body = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "SyncRule", "metadata": {"name": "bench"},
                "spec": {"resources": [resource]}}  # fmt: skip
        await self.create("apis/fairlead.dev/v1alpha1/syncrules", [body])


def config_map(name: str, value: str, size: int) -> dict[str, Any]:
    filler = f"{name} " * (size // (len(name) + 1))
    metadata = {"name": name, "labels": {"bench": "yes"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value, "filler": filler}}


class Plant:
    """One hub process."""

    def __init__(self, lab: Lab, toml: str = "", *, top: str = "", tls: bool = False) -> None:
        folder = lab.folder / f"hub-{time.monotonic_ns()}"
        folder.mkdir()
        self.hub = HubProcess(lab.cluster, folder, toml=toml, top=top)
        self.url = self.hub.url
        self.context: ssl.SSLContext | None = None
        if tls:
            text = self.hub.config.read_text().replace('security = "insecure"', 'security = "mtls"')
            self.hub.config.write_text(text)
            self.url = self.url.replace("ws://", "wss://")

    async def __aenter__(self) -> Plant:
        await asyncio.to_thread(self.hub.start)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.hub.stop)

    @property
    def cpu(self) -> float:
        """Seconds of CPU the process has used."""
        assert self.hub.running is not None
        fields = Path(f"/proc/{self.hub.running.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def memory(self) -> int:
        """Resident bytes."""
        assert self.hub.running is not None
        lines = Path(f"/proc/{self.hub.running.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * 1024

    async def metric(self, name: str) -> float:
        return await asyncio.to_thread(self.hub.metric, f"fairlead_hub_{name}")

    async def writes(self) -> dict[str, float]:
        """Requests to the API server so far, by method."""
        found: dict[str, float] = {}
        for line in (await asyncio.to_thread(self.hub.text, "/metrics")).splitlines():
            if line.startswith("fairlead_hub_api_requests_total{"):
                found[line.split('"')[1]] = float(line.rsplit(" ", 1)[1])
        return found

    @contextlib.asynccontextmanager
    async def fleet(self, names: list[str], *, url: str = "", **options: Any) -> AsyncIterator[list[SimulatedNode]]:
        nodes = [SimulatedNode(name, url or self.url, context=self.context, **options) for name in names]
        async with running(nodes):
            yield nodes


@contextlib.asynccontextmanager
async def running(nodes: list[SimulatedNode]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(node.run()) for node in nodes]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def reached(what: str, condition: Any, seconds: float = 120.0, every: float = 0.01) -> float:
    """Wait until it holds; returns how long that took.  Raises when it does not come true."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > seconds:
            raise AssertionError(f"{what}: not within {seconds:g} s")
        await asyncio.sleep(every)
    return time.monotonic() - started


async def all_recorded(plant: Plant) -> None:
    """Nothing waits to be written: every status is in the API."""
    ends = time.monotonic() + 300
    while await plant.metric("status_dirty") > 0:
        assert time.monotonic() < ends, "records are not written within 300 s"
        await asyncio.sleep(0.2)


class Delay:
    """A TCP proxy that holds every byte back for half the round trip in each direction; bandwidth is not limited."""

    def __init__(self, target_port: int, round_trip: float) -> None:
        self._target, self._half = target_port, round_trip / 2
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return f"ws://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._target)
        for source, target in ((reader, up_writer), (up_reader, writer)):
            task = asyncio.create_task(self._pump(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while chunk := await source.read(65536):
            loop.call_later(self._half, target.write, chunk)
        loop.call_later(self._half, target.close)
