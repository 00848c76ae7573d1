"""Fencing numbers that were never true: claimed by a node, shown by a false hub, lost with the Lease. Real programs."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.hubs.hub import CRDS, HubProcess, edge_node, until
from tests.support.hubs.hub_server import HubServer
from tests.support.kube.cluster import Cluster
from websockets.asyncio.client import connect

from fairlead_hub import leadership
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
    return leadership.fence_of(kube.get(LEASE))


async def claim(hub: HubProcess, node: str, number: int) -> message.FromHub:
    """What the hub answers a hello with this number."""
    async with connect(hub.url, compression=None) as socket:
        hello = message.Hello(node=node, agent="x", store_epoch=1, fence=number, bits=0, held=0, root=EMPTY)
        await socket.send(codec.encode(hello))
        return codec.decode_from_hub(await socket.recv(decode=False))[0]


def link(agent: EdgeAgent) -> dict[str, Any]:
    found: dict[str, Any] = agent.get("/v1/status")[1]["link"]
    return found


def fairlead(*words: str) -> tuple[int, str]:
    """Exit code, and all that it printed."""
    done = subprocess.run([sys.executable, "-m", "fairlead_cli.main", *words], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def on_the_cluster(kube: Cluster, *words: str) -> tuple[int, str]:
    return fairlead(*words, "--kubeconfig", str(kube.kubeconfig))


def obeyed(kube: Cluster, node: str) -> int | None:
    """The fencing number for which the node is refused, as its EdgeNode says; None: it is not refused."""
    found = json.loads(kube.kubectl("get", "edgenode", node, "-o", "json", check=False) or "{}").get("status") or {}
    reasons = [each["reason"] for each in found.get("conditions") or () if each["type"] == "Connected"]
    number: int | None = found.get("obeyedFence")
    assert (reasons == ["StaleHub"]) == (number is not None)
    return number


@pytest.mark.verify
@pytest.mark.process
async def test_claims_and_a_lost_lease_lock_no_node_out(kube: Cluster, tmp_path: Path) -> None:
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
        claimed = await until("its EdgeNode says so", lambda: obeyed(kube, "edge-4"))
        code, text = await asyncio.to_thread(on_the_cluster, kube, "doctor", "--cluster")
        assert code == 1 and f"node edge-4 is refused: this edge has obeyed hub {claimed}, this is {before}" in text
        assert "to accept it now: fairlead node approve edge-4\n" in text
        answer = await claim(hub, "stranger", before + 1)
        assert isinstance(answer, message.Refuse) and answer.code == "node_unknown"

        # The Lease is restored, then lost, while no hub runs: all nodes have obeyed a higher number than the next one.
        hub.kill()
        kube.kubectl("annotate", "lease", "fairlead-hub", "fairlead.dev/fence=900", "--overwrite")
        hub.start()
        await until("all obey it", lambda: all(link(agent)["fence"] == 901 for agent in agents))

        def is_followed(highest: int) -> bool:
            return all(link(agent)["state"] == "connected" for agent in agents) and fence(kube) > highest

        for lose in (("annotate", "lease", "fairlead-hub", "fairlead.dev/fence=16", "--overwrite"),
                     ("delete", "lease", "fairlead-hub")):  # fmt: skip
            hub.kill()
            highest = max(link(agent)["fence"] for agent in agents)
            kube.kubectl(*lose)
            hub.start()
            await until("all are followed", partial(is_followed, highest))
            assert fence(kube) < 1000
    finally:
        for agent in agents:
            agent.kill()
        hub.kill()


@pytest.mark.verify
@pytest.mark.process
async def test_a_false_hub_shuts_an_agent_out_until_a_person_approves(kube: Cluster, tmp_path: Path) -> None:
    """One welcome with 1,000,000; then the true hub, whose one node among several cannot raise its number."""
    agent = await misled(tmp_path)
    hub = HubProcess(kube, tmp_path, toml="[record]\nflush_seconds = 0.2\n").start()
    try:
        agent.set(HUB_URL=hub.url)
        agent.start()
        await until("it refuses the true hub", lambda: link(agent)["followsInSeconds"] is not None)
        assert 0 < link(agent)["followsInSeconds"] <= 600
        settings = tmp_path / "edge.toml"
        settings.write_text("\n".join(f'{name} = "{value}"' for name, value in {
            "node": agent.node, "security": "insecure", "hub_url": hub.url, "http_listen": agent.url.partition("//")[2],
            "data_dir": str(agent.folder / "data"),
        }.items()))  # fmt: skip
        code, text = await asyncio.to_thread(fairlead, "doctor", "--edge", "--config", str(settings))
        [at] = [number for number, line in enumerate(text.splitlines()) if " agent.stale_hub " in line]
        assert code == 1 and "has obeyed hub 1000000, which cannot be" in text.splitlines()[at]
        assert text.splitlines()[at + 1].endswith(": fairlead node approve edge-1")

        await until("its EdgeNode says so", lambda: obeyed(kube, "edge-1") == 1_000_000)
        code, text = await asyncio.to_thread(on_the_cluster, kube, "node", "approve", "edge-1")
        assert code == 0 and "fencing number 1000000" in text
        await until("the true hub is obeyed", lambda: link(agent)["state"] == "connected")
        assert link(agent)["fence"] == fence(kube) < 1000
        assert [each for each in agent.events() if each.get("event") == "fence_given_up"]
        await until("its EdgeNode says so, too", lambda: obeyed(kube, "edge-1") is None)
    finally:
        agent.kill()
        hub.kill()


@pytest.mark.verify
@pytest.mark.process
async def test_an_agent_that_is_killed_again_and_again_comes_back_all_the_same(kube: Cluster, tmp_path: Path) -> None:
    """A device that is awake for a moment only: since when it refuses the true hub is on its disk."""
    agent = await misled(tmp_path)
    hub = HubProcess(kube, tmp_path).start()
    try:
        agent.set(HUB_URL=hub.url, LINK_STALE_HUB_SECONDS="20")
        lives, deadline = 0, time.monotonic() + 300
        while True:
            agent.start()
            await until("it has dialled", lambda: link(agent)["reason"] or link(agent)["state"] == "connected")
            if link(agent)["state"] == "connected":
                break
            agent.kill()  # before twenty seconds of one life are over
            lives += 1
            assert time.monotonic() < deadline
        assert lives and link(agent)["fence"] == fence(kube) < 1000
    finally:
        agent.kill()
        hub.kill()


async def misled(folder: Path) -> EdgeAgent:
    """An agent, killed, that has obeyed a false hub with the number 1,000,000."""
    async with HubServer() as false:
        agent = EdgeAgent(folder, false.url).start()
        peer = await false.open(fence=1_000_000)
        await until("it is obeyed", lambda: link(agent)["fence"] == 1_000_000)
        agent.kill()
        del peer
    return agent
