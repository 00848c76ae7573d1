"""Fencing numbers that were never true: claimed by a node, shown by a false hub, lost with the Lease. Real programs."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.hubs.hub import CRDS, HubProcess, edge_node, until
from tests.support.hubs.hub_server import HubServer
from tests.support.kube.cluster import Cluster
from websockets.asyncio.client import connect

from fairlead_hub.leadership import lease
from fairlead_wire import message
from fairlead_wire.link import codec
from fairlead_wire.objects import digest

LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/fairlead-hub"
EMPTY = digest.Buckets.of([], 0).root


@pytest.fixture
def kube(cluster: Cluster) -> Iterator[Cluster]:
    cluster.apply(CRDS)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    cluster.apply([edge_node(name) for name in ("edge-1", "edge-2", "edge-3", "edge-4")])
    yield cluster
    cluster.kubectl("delete", "edgenodes,nodes,leases", "--all", "--wait=true")


def fence(kube: Cluster) -> int:
    return lease.fence_of(kube.get(LEASE))


async def claim(hub: HubProcess, node: str, number: int) -> message.FromHub:
    """What the hub answers a hello with this number."""
    async with connect(hub.url, compression=None) as socket:
        hello = message.Hello(node=node, agent="x", store_epoch=1, fence=number, bits=0, held=0, root=EMPTY)
        await socket.send(codec.encode(hello))
        return codec.decode_from_hub(await socket.recv(decode=False))[0]


def link(agent: EdgeAgent) -> dict[str, Any]:
    found: dict[str, Any] = agent.get("/v1/status")[1]["link"]
    return found


def doctor(kube: Cluster) -> tuple[int, str]:
    command = [sys.executable, "-m", "fairlead_cli.main", "doctor", "--cluster", "--kubeconfig", str(kube.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.verify
@pytest.mark.process
async def test_claims_and_a_lost_lease_shut_nobody_out(kube: Cluster, tmp_path: Path) -> None:
    """A node's word raises nobody's number, and doctor names it; where the Lease is lost honest nodes are followed."""
    hub = HubProcess(kube, tmp_path, toml="[record]\nflush_seconds = 0.2\n").start()
    agents = []
    for name in ("edge-1", "edge-2", "edge-3"):
        (tmp_path / name).mkdir()
        agents.append(EdgeAgent(tmp_path / name, hub.url, node=name))
    try:
        for agent in agents:
            agent.start()
        await until("all are connected", lambda: all(link(agent)["state"] == "connected" for agent in agents))
        before = fence(kube)
        for round in range(1, 6):
            answer = await claim(hub, "edge-4", before + 99_000 * round)
            assert isinstance(answer, message.Refuse) and (answer.code, answer.fence) == ("stale_hub", before)
        assert fence(kube) == before

        def refused() -> bool:
            found = json.loads(kube.kubectl("get", "edgenode", "edge-4", "-o", "json", check=False) or "{}")
            conditions = (found.get("status") or {}).get("conditions") or ()
            return any(each["type"] == "Connected" and each["reason"] == "StaleHub" for each in conditions)

        await until("its EdgeNode says so", refused)
        code, text = await asyncio.to_thread(doctor, kube)
        assert code == 1 and "node edge-4 is refused: this edge" in text and "fairlead.dev/fence=NUMBER" in text

        # The Lease is lost while no hub runs, and the hub that starts has a lower number than all nodes have obeyed.
        hub.kill()
        kube.kubectl("annotate", "lease", "fairlead-hub", "fairlead.dev/fence=900", "--overwrite")
        hub.start()
        await until("all obey it", lambda: all(link(agent)["fence"] == 901 for agent in agents))
        hub.kill()
        kube.kubectl("delete", "lease", "fairlead-hub")
        hub.start()
        connected = lambda: [link(agent)["state"] == "connected" for agent in agents]  # noqa: E731
        await until("all are followed", lambda: all(connected()) and fence(kube) > 901)
    finally:
        for agent in agents:
            agent.kill()
        hub.kill()


@pytest.mark.verify
@pytest.mark.process
async def test_a_false_hub_shuts_an_agent_out_for_a_while_only(kube: Cluster, tmp_path: Path) -> None:
    """One welcome with 1,000,000; then the true hub, whose one node among several cannot raise its number."""
    async with HubServer() as false:
        agent = EdgeAgent(tmp_path, false.url, LINK_STALE_HUB_SECONDS="3").start()
        peer = await false.open(fence=1_000_000)
        await until("it is obeyed", lambda: link(agent)["fence"] == 1_000_000)
        agent.kill()
        del peer
    hub = HubProcess(kube, tmp_path).start()
    try:
        agent.set(HUB_URL=hub.url)
        agent.start()
        await until("the true hub is obeyed", lambda: link(agent)["state"] == "connected")
        assert link(agent)["fence"] == fence(kube) < 1000
        assert '"fence_given_up"' in agent.log.read_text()
    finally:
        agent.kill()
        hub.kill()
