"""Hub, edge and API server are killed at random while the cluster changes; afterwards all of them must agree.

One real edge agent and four simulated nodes (one loses a third of its acks, one flaps, one reads slowly); disks are
wiped, links break, and links go dark: packets are lost and nothing is closed.

Laws: a dark link is noticed on both sides within 30 s; after the calm every node holds exactly what the cluster has (by
content), and every record says so; the hub logged no internal error.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from tests.faults.collect import Count
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.hubs.hub import CRDS, HubProcess, config_map, edge_node, sync_rule
from tests.support.kube.cluster import Cluster
from tests.support.lines.dark_link import DarkLink
from tests.support.processes import wait_until

from fairlead_cli.simulated_node import SimulatedNode
from fairlead_hub.cluster import content
from fairlead_hub.cluster.content import ServedKind
from fairlead_hub.io.cluster import api_access
from fairlead_hub.io.cluster.api_error import ApiRefused, ApiUnavailable
from fairlead_hub.io.cluster.kube import MERGE_PATCH, Kube

ROOM = "downstream"
KILLS = 200
OBJECTS = 30
NAMESPACE = "faults"
ROOT = f"api/v1/namespaces/{NAMESPACE}/configmaps"
RECORDS = f"apis/fairlead.dev/v1alpha1/namespaces/{NAMESPACE}/objectsyncs"
KIND = ServedKind(group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True)
REAL = "edge-real"
NODES = ("edge-well", "edge-deaf", "edge-flaps", "edge-slow", REAL)
CALM_SECONDS = 240.0
DARK_SECONDS_MAX = 120.0
SLOW_BYTES_PER_SECOND = 20_000
HUB = """
[record]
flush_seconds = 0.2
pending_seconds = 2
[reconcile]
interval_seconds = 10
parked_retry_seconds = 2
[delivery]
minimum_delay = 0.2
maximum_delay = 1
ack_timeout = 1
[link]
keepalive_seconds = 2
"""


class _World:
    def __init__(self, folder: Path, random: Random) -> None:
        self.random = random
        self.cluster = Cluster(folder / "cluster")
        self.count = Count(kills=0, acknowledged=0, lost=0, duplicated=0, untrue=0)
        self.changes = 0
        self.dark: list[float] = []
        """How long both sides took to notice, each time."""
        self._folder = folder

    async def run(self, kills: int, progress: Callable[[str], None]) -> Count:
        await asyncio.to_thread(self._prepare)
        async with (
            DarkLink(self.hub.link_port) as self.link,
            DarkLink(self.hub.link_port, bytes_per_second=SLOW_BYTES_PER_SECOND) as slow,
        ):
            return await self._run(kills, progress, slow.url)

    async def _run(self, kills: int, progress: Callable[[str], None], slow_url: str) -> Count:
        edge = self._folder / "edge"
        edge.mkdir()
        self.agent = EdgeAgent(edge, self.link.url, node=REAL)
        self.agent.launch()
        self.kube = Kube(api_access.load(str(self.cluster.kubeconfig)))
        self.nodes = [
            SimulatedNode("edge-well", self.hub.url),
            SimulatedNode("edge-deaf", self.hub.url, behaviour="lose-acks"),
            SimulatedNode("edge-flaps", self.hub.url, behaviour="flapping"),
            SimulatedNode("edge-slow", slow_url),
        ]
        tasks = [asyncio.create_task(node.run()) for node in self.nodes]
        try:
            await self._go_dark()
            while self.count["kills"] < kills:
                await self._change()
                # A moment of the real clock, in the middle of whatever is going on.
                await asyncio.sleep(self.random.random() * 0.6)
                await self._harm()
                if self.count["kills"] % 20 == 0:
                    progress(f"hub: {self.count}, {self.changes} changes, dark links noticed after {self.dark} s")
            for node in self.nodes:
                node.behaviour = "well"
            await self._calm()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.kube.close()
            await asyncio.to_thread(self._end)
        self.count["acknowledged"] = sum(node.figures.updates + node.figures.deletes for node in self.nodes)
        return self.count

    def _prepare(self) -> None:
        self.cluster.start()
        self.cluster.apply(CRDS)
        self.cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
        self.cluster.kubectl("create", "namespace", NAMESPACE)
        self.cluster.apply([edge_node(name) for name in NODES])
        self.cluster.apply(sync_rule("faults", {"apiVersion": "v1", "kind": "ConfigMap", "namespaces": [NAMESPACE]}))
        self.hub = HubProcess(self.cluster, self._folder, toml=HUB).start()

    def _end(self) -> None:
        self.agent.kill()
        self.hub.kill()
        self.cluster.stop()
        log = (self._folder / "hub.log").read_text()
        if '"traceback"' in log:
            raise AssertionError(f"the hub logged a defect of its own:\n{log[-4000:]}")

    async def _change(self) -> None:
        """A few creations, updates and deletes, unless the API server is down."""
        for _ in range(self.random.randrange(1, 12)):
            name = f"c-{self.random.randrange(OBJECTS)}"
            self.changes += 1
            body = config_map(name, NAMESPACE, value=f"{self.changes} " + "x" * self.random.randrange(2000))
            with contextlib.suppress(ApiRefused, ApiUnavailable):
                if self.random.random() < 0.2:
                    await self.kube.request("DELETE", f"{ROOT}/{name}", attempts=1)
                elif self.random.random() < 0.5:
                    await self.kube.request("POST", ROOT, body, attempts=1)
                else:
                    change = {"data": body["data"]}
                    await self.kube.request("PATCH", f"{ROOT}/{name}", change, content_type=MERGE_PATCH, attempts=1)

    async def _harm(self) -> None:
        chance = self.random.random()
        if chance < 0.45:
            self.hub.kill()
            await asyncio.to_thread(self.hub.start, ready=False)
            self.count["kills"] += 1
        elif chance < 0.75:
            self.agent.kill()
            self.agent.launch()
            self.count["kills"] += 1
        elif chance < 0.8:
            await asyncio.to_thread(self.cluster.restart_apiserver)
            self.count["kills"] += 1
        elif chance < 0.85:
            await self._go_dark()
        elif chance < 0.92:
            await self.random.choice(self.nodes).drop()
        else:
            node = self.random.choice(self.nodes)
            node.wipe()
            await node.drop()

    async def _go_dark(self) -> None:
        """The real edge's link loses every packet until both sides have noticed."""
        sides = (self._hub_sees_it, self._edge_sees_hub)
        await asyncio.to_thread(wait_until, "the link is up", lambda: all(s() for s in sides), seconds=CALM_SECONDS)
        self.link.is_dark = True
        started = time.monotonic()
        try:
            await asyncio.to_thread(
                wait_until, "both notice a dark link", lambda: not any(s() for s in sides), seconds=DARK_SECONDS_MAX
            )
        finally:
            self.link.is_dark = False
        self.dark.append(round(time.monotonic() - started, 1))

    def _hub_sees_it(self) -> bool:
        return bool(self.hub.json(f"/v1/nodes/{REAL}")["connected"])

    def _edge_sees_hub(self) -> bool:
        return bool(self.agent.get("/v1/status")[1]["link"]["state"] == "connected")

    async def _calm(self) -> None:
        """Wait until everything is right; count what is still wrong after ``CALM_SECONDS``."""
        live = {}
        page = json.loads(await self.kube.get(ROOT))
        for item in page["items"]:
            built = content.build(json.dumps(item).encode(), KIND)
            live[built.key] = built
        want = {key: built.digest for key, built in live.items()}

        def settled() -> bool:
            return not any(self._wrong(want))

        with contextlib.suppress(AssertionError):
            await asyncio.to_thread(wait_until, "calm", settled, seconds=CALM_SECONDS, every=0.5)
        self.count["lost"], self.count["untrue"] = self._wrong(want)

    def _wrong(self, want: dict[str, str]) -> tuple[int, int]:
        """(objects that are missing, surplus or outdated on nodes; records that are wrong)."""
        lost = 0
        for node in self.nodes:
            found = {key: stored.digest for key, stored in node.held.items()}
            lost += len(set(want.items()) ^ set(found.items()))
        lost += self._wrong_at_the_real_edge(want)
        records: dict[str, set[tuple[str, str]]] = {}
        untrue = 0
        for item in self.cluster.get(f"/{RECORDS}")["items"]:
            status = item.get("status", {})
            untrue += status.get("state") != "Synced"
            key = f"configmaps/{NAMESPACE}/{item['spec']['objectName']}"
            records.setdefault(item["spec"]["nodeName"], set()).add((key, status.get("objectDigest", "")))
        for name in NODES:
            untrue += len(set(want.items()) ^ records.get(name, set()))
        return lost, untrue

    def _wrong_at_the_real_edge(self, want: dict[str, str]) -> int:
        try:
            status, found = self.agent.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps")
        except OSError:
            return len(want)
        if status != 200:
            return len(want)
        digests = {}
        for item in found["items"]:
            body: dict[str, Any] = {**item, "metadata": dict(item["metadata"])}
            annotations = body["metadata"].get("annotations", {})
            body["metadata"]["annotations"] = {
                k: v for k, v in annotations.items() if not k.startswith("fairlead.dev/")
            }
            digests[f"configmaps/{NAMESPACE}/{body['metadata']['name']}"] = content.build(
                json.dumps(body).encode(), KIND
            ).digest
        return len(set(want.items()) ^ set(digests.items()))


def run(kills: int, seed: int, progress: Callable[[str], None]) -> Count:
    """Kill ``kills`` times; ``seed`` decides what, and about when."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_World(Path(folder), Random(seed)).run(kills, progress))
