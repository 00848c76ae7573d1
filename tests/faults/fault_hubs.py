"""Two hubs and one Lease: the leader is stopped (SIGSTOP) and resumed, or killed, while nodes and changes continue.

A proxy in front of the API server records every request of each hub, a node's socket every frame.  Laws: a hub that
resumes after a pause writes nothing and sends nothing to nodes under its old number; records are the newer hub's; after
each fault every node holds what the cluster has, and one hub leads.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.faults.collect import Count
from tests.faults.rivals import TAKE_OVER_SECONDS, Rival, Rivals, define
from tests.support.hubs.hub import HubProcess, config_map, edge_node, sync_rule, until
from tests.support.kube.api_front import ApiFront
from tests.support.kube.cluster import Cluster
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from fairlead_cli.simulated_node import SimulatedNode
from fairlead_hub import leadership
from fairlead_wire import message
from fairlead_wire.link import codec
from fairlead_wire.objects import digest

ROOM = "downstream"
KILLS = 8
NAMESPACE = "hubs"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
RECORDS = f"/apis/fairlead.dev/v1alpha1/namespaces/{NAMESPACE}/objectsyncs"
PAUSE_SECONDS = 40.0
WATCHED_SECONDS = 5.0
"""How long a resumed hub is observed: longer than its longest flush, renewal and pulse."""
HUB = "[record]\nflush_seconds = 0.1\npending_seconds = 1\n[reconcile]\ninterval_seconds = 2\n"


class _Candidate(Rival):
    """One hub behind a door of its own, and a node that only listens."""

    def __init__(self, cluster: Cluster, front: ApiFront, folder: Path) -> None:
        folder.mkdir()
        super().__init__(cluster, front, folder, HubProcess(cluster, folder, toml=HUB))
        self.frames: list[message.FromHub] = []

    async def listen(self, node: str) -> None:
        """Connect as this node, acknowledge nothing, and keep every frame until the connection ends."""
        sums = digest.Buckets.of([], 0)
        hello = message.Hello(node=node, agent="1", store_epoch=1, fence=0, bits=0, held=0, root=sums.root)
        with contextlib.suppress(ConnectionClosed, OSError):
            async with connect(self.hub.url, compression=None, ping_interval=None, proxy=None) as socket:
                await socket.send(codec.encode(hello))
                async for frame in socket:
                    assert isinstance(frame, bytes)
                    self.frames.append(codec.decode_from_hub(frame)[0])


class _World:
    def __init__(self, folder: Path, random: Random, pause_seconds: float) -> None:
        self.random, self.pause_seconds = random, pause_seconds
        self.cluster = Cluster(folder / "cluster")
        self.count = Count(kills=0, acknowledged=0, lost=0, duplicated=0, untrue=0)
        self._folder = folder
        self._changes = 0

    async def run(self, kills: int, progress: Callable[[str], None]) -> Count:
        await asyncio.to_thread(self._prepare)
        try:
            async with ApiFront(self.cluster) as one, ApiFront(self.cluster) as two:
                self._hubs = Rivals(
                    _Candidate(self.cluster, one, self._folder / "hub-0"),
                    _Candidate(self.cluster, two, self._folder / "hub-1"),
                )
                async with self._hubs.running():
                    while self.count["kills"] < kills:
                        await self._harm(stop=self.count["kills"] % 2 == 0)
                        progress(f"hubs: {self.count}")
        finally:
            await asyncio.to_thread(self.cluster.stop)
        self._hubs.require_no_defects()
        return self.count

    def _prepare(self) -> None:
        define(self.cluster)
        self.cluster.kubectl("create", "namespace", NAMESPACE)
        self.cluster.apply([edge_node("edge-1"), edge_node("edge-2")])
        self.cluster.apply(sync_rule("hubs", {"apiVersion": "v1", "kind": "ConfigMap", "namespaces": [NAMESPACE]}))

    async def _harm(self, *, stop: bool) -> None:
        leader, other = await self._hubs.leader()
        node = SimulatedNode("edge-1", leader.hub.url)
        serving = asyncio.create_task(node.run())
        leader.frames.clear()
        listening = asyncio.create_task(leader.listen("edge-2"))
        await self._change()
        await self._settled(node)
        fence = self._fence()
        # A moment of the real clock, so that it happens anywhere between two renewals.
        await asyncio.sleep(self.random.random() * 3)
        self.count["kills"] += 1
        if not stop:
            await asyncio.to_thread(leader.hub.kill)
            leader.hub.start(ready=False)  # its own name: it need not wait
        else:
            os.kill(leader.pid, signal.SIGSTOP)
        stopped_at = time.monotonic()
        if stop:
            await until("the other takes over", lambda: other.is_ready, seconds=TAKE_OVER_SECONDS)
            node.url = other.hub.url
            await node.drop()
            await self._change()
            await self._settled(node)
            assert self._fence() > fence
            await asyncio.sleep(max(0.0, self.pause_seconds - (time.monotonic() - stopped_at)))
            await self._continue(leader, listening, fence)
        await self._change()
        if not stop:
            now, _ = await self._hubs.leader()
            node.url = now.hub.url
        await self._settled(node)
        self.count["acknowledged"] += node.figures.updates + node.figures.deletes
        for task in (serving, listening):
            task.cancel()
        await asyncio.gather(serving, listening, return_exceptions=True)

    async def _continue(self, deposed: _Candidate, listening: asyncio.Task[None], fence: int) -> None:
        """The hub resumes; what it writes and sends from now on is counted."""
        requests, frames = len(deposed.front.requests), len(deposed.frames)
        os.kill(deposed.pid, signal.SIGCONT)
        await self._change()
        await until("it ends", lambda: not deposed.is_alive, seconds=120)
        await asyncio.wait([listening], timeout=WATCHED_SECONDS)
        written = [each for each in deposed.front.requests[requests:] if each[0] != "GET"]
        said = deposed.frames[frames:]
        if written or said:
            self.count["untrue"] += len(written) + len(said)
            print(f"under the old number {fence}: {written} {said}", file=sys.stderr)
        deposed.hub.start(ready=False)

    def _fence(self) -> int:
        return leadership.fence_of(self.cluster.get(f"{LEASES}/{leadership.NAME}"))

    async def _change(self) -> None:
        self._changes += 1
        body = config_map(f"c-{self._changes % 5}", NAMESPACE, value=str(self._changes))
        await asyncio.to_thread(self.cluster.apply, body)

    async def _settled(self, node: SimulatedNode) -> None:
        """The node holds what the cluster has, and its records say so, under the number of the present leader."""

        def wrong() -> int:
            items = self.cluster.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps")["items"]
            want = {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}
            held = {key.rpartition("/")[2]: stored.uid for key, stored in node.held.items()}
            lost = len(set(want.items()) ^ set(held.items()))
            digests = {stored.uid: stored.digest for stored in node.held.values()}
            for item in self.cluster.get(RECORDS)["items"]:
                if item["spec"]["nodeName"] != node.name:
                    continue
                status = item.get("status", {})
                said = (status.get("state"), status.get("objectDigest"))
                lost += said != ("Synced", digests.get(item["spec"]["objectUID"]))
            newest = next((i for i in items if i["metadata"]["name"] == f"c-{self._changes % 5}"), None)
            version = node.held.get(f"configmaps/{NAMESPACE}/c-{self._changes % 5}")
            lost += newest is None or version is None or version.version != newest["metadata"]["resourceVersion"]
            return lost

        await until("the node and its records are right", lambda: not wrong(), seconds=TAKE_OVER_SECONDS)


def run(kills: int, seed: int, progress: Callable[[str], None], *, pause_seconds: float = PAUSE_SECONDS) -> Count:
    """Stop or kill the leader ``kills`` times, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_World(Path(folder), Random(seed), pause_seconds).run(kills, progress))
