"""Watches between hub and API server end, stall, break and send nonsense at random, in bursts of changes.

Laws, while it happens and afterwards:
- No update reaches a node later than its write, or the last break of its watch, plus ``LATE_SECONDS``.
- Nothing is listed a second time, except after a 410 of the API server.
- A record is written at most once for each change its node acknowledged, and never against a newer version.
- After the calm, every node holds what the cluster has, and every record says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from tests.faults.collect import Count
from tests.support.hubs.hub import CRDS, HubProcess, config_map, edge_node, sync_rule, until
from tests.support.kube.cluster import Cluster
from tests.support.kube.rough_proxy import RoughProxy

from fairlead_cli.simulated_node import SimulatedNode
from fairlead_hub.cluster import watch_health
from fairlead_hub.io.cluster import api_access
from fairlead_hub.io.cluster.kube import MERGE_PATCH, Kube
from fairlead_wire import message

ROOM = "downstream"
KILLS = 300
"""Broken watches, for this test."""
OBJECTS = 20
NAMESPACE = "watches"
MAPS = f"api/v1/namespaces/{NAMESPACE}/configmaps"
WATCHED = "api/v1/configmaps"
RECORDS = f"apis/fairlead.dev/v1alpha1/namespaces/{NAMESPACE}/objectsyncs"
NODES = ("edge-0", "edge-1")
LATE_SECONDS = 45.0
"""The promise is one second; the rest is for a busy machine.  Other lists are counted, and the next comparison is an
hour away, so neither hides a late update."""
CALM_SECONDS = 240.0
HUB = "[record]\nflush_seconds = 0.2\n[reconcile]\ninterval_seconds = 3600\n"


class _World:
    def __init__(self, folder: Path, random: Random) -> None:
        self.random = random
        self.cluster = Cluster(folder / "cluster")
        self.count = Count(kills=0, acknowledged=0, lost=0, duplicated=0, untrue=0)
        self._folder = folder
        self.written: dict[str, list[tuple[int, float]]] = {f"c{n}": [] for n in range(OBJECTS)}
        """By object: (version, when) of every write."""
        self.arrived: dict[tuple[str, str], list[tuple[int, float]]] = {}
        self.late: list[float] = []

    async def run(self, breaks: int, progress: Callable[[str], None]) -> Count:
        self.progress = progress
        await asyncio.to_thread(self._prepare)
        try:
            async with RoughProxy(self.cluster, self._folder, self.random) as proxy:
                return await self._run(breaks, progress, proxy)
        finally:
            await asyncio.to_thread(self.cluster.stop)

    async def _run(self, breaks: int, progress: Callable[[str], None], proxy: RoughProxy) -> Count:
        hub = await asyncio.to_thread(HubProcess(proxy.kubernetes, self._folder, toml=HUB).start)
        kube = Kube(api_access.load(str(self.cluster.kubeconfig)))
        nodes = [SimulatedNode(name, hub.url, on_update=partial(self._note, name)) for name in NODES]
        tasks = [asyncio.create_task(node.run()) for node in nodes]
        try:
            await until("first sync", lambda: all(len(node.held) >= OBJECTS for node in nodes), seconds=CALM_SECONDS)
            proxy.rough = True
            while len(proxy.harms) < breaks:
                await self._burst(kube)
                progress(f"watches: {len(proxy.harms)} broken, {sum(map(len, self.written.values()))} changes")
            proxy.rough = False
            await self._calm(nodes, proxy)
            self._judge(proxy)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await kube.close()
            await asyncio.to_thread(hub.kill)
        if '"traceback"' in (self._folder / "hub.log").read_text():
            raise AssertionError("the hub logged a defect of its own")
        self.count["kills"] = len(proxy.harms)
        self.count["acknowledged"] = sum(node.figures.updates for node in nodes)
        return self.count

    def _prepare(self) -> None:
        self.cluster.start()
        self.cluster.apply(CRDS)
        self.cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
        self.cluster.kubectl("create", "namespace", NAMESPACE)
        self.cluster.apply([edge_node(name) for name in NODES])
        self.cluster.apply([config_map(name, NAMESPACE, value="0") for name in self.written])
        self.cluster.apply(sync_rule("watches", {"apiVersion": "v1", "kind": "ConfigMap", "namespaces": [NAMESPACE]}))

    def _note(self, node: str, update: message.Update, now: float) -> None:
        name = update.resource.rpartition("/")[2]
        self.arrived.setdefault((node, name), []).append((int(update.resource_version), time.monotonic()))

    async def _burst(self, kube: Kube) -> None:
        for _ in range(self.random.randrange(1, 30)):
            name = f"c{self.random.randrange(OBJECTS)}"
            change = {"data": {"value": str(self.random.random())}}
            answer = await kube.request("PATCH", f"{MAPS}/{name}", change, content_type=MERGE_PATCH)
            self.written[name].append((int(json.loads(answer)["metadata"]["resourceVersion"]), time.monotonic()))
        # A moment of the real clock, so that watches break both in bursts and between them.
        await asyncio.sleep(self.random.random() * 0.5)

    async def _calm(self, nodes: list[SimulatedNode], proxy: RoughProxy) -> None:
        wanted = {
            f"configmaps/{NAMESPACE}/{name}": str(writes[-1][0]) for name, writes in self.written.items() if writes
        }

        def wrong() -> tuple[int, int]:
            lost = sum(
                key not in node.held or node.held[key].version != version
                for node in nodes
                for key, version in wanted.items()
            )
            untrue = 0
            for item in self.cluster.get(f"/{RECORDS}")["items"]:
                status = item.get("status", {})
                version = wanted.get(f"configmaps/{NAMESPACE}/{item['spec']['objectName']}")
                untrue += status.get("state") != "Synced" or version not in (None, status.get("objectResourceVersion"))
            return lost, untrue

        with contextlib.suppress(AssertionError):
            await until("calm", lambda: not any(wrong()), seconds=CALM_SECONDS)
        self.count["lost"], self.count["untrue"] = await asyncio.to_thread(wrong)

    def _judge(self, proxy: RoughProxy) -> None:
        # A stall is a silent break: it ends when the hub times out.
        breaks = [
            harm.at + (watch_health.SILENCE_SECONDS_MIN if harm.what == "stall" else 0.0)
            for harm in proxy.harms
            if harm.root == WATCHED
        ]
        for (_, name), arrivals in self.arrived.items():
            for version, written in self.written[name]:
                at = next((when for there, when in arrivals if there >= version), None)
                if at is not None:
                    excused = max((broken for broken in breaks if broken <= at), default=written)
                    self.late.append(at - max(written, excused))
        worst = max(self.late)
        self.progress(
            f"watches: latest update {worst:.2f} s, {sum(proxy.watches.values())} watches, {dict(proxy.lists)}"
        )
        if worst > LATE_SECONDS:
            raise AssertionError(f"an update came {worst:.1f} s after its write and the last break of its watch")
        for root, times in proxy.lists.items():
            if times > 1 + proxy.too_old[root]:
                raise AssertionError(f"{root} was listed {times} times, the API server said {proxy.too_old[root]}x 410")
        if proxy.conflicts:
            raise AssertionError(f"{proxy.conflicts} writes were decided on an older version")
        told = sum(len({version for version, _ in arrivals}) for arrivals in self.arrived.values())
        records = sum(count for path, count in proxy.writes.items() if path.startswith(RECORDS) and path != RECORDS)
        self.count["duplicated"] = max(0, records - told)


def run(kills: int, seed: int, progress: Callable[[str], None]) -> Count:
    """Break ``kills`` watches; ``seed`` decides how, and about when."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_World(Path(folder), Random(seed)).run(kills, progress))
