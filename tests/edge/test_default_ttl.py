"""How long messages live whose route does not say: the default may change while they wait.  A real agent."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.hubs.hub_server import HubServer
from tests.support.processes import wait_until

pytestmark = pytest.mark.process

SINK = 'INTO BrokeredEndpoint("/modules/filter/inputs/in")'
ROUTES: dict[str, Any] = {
    "apiVersion": "fairlead.dev/v1alpha1",
    "kind": "EdgeRoutes",
    "metadata": {"name": "plant", "uid": "uid-routes"},
    "spec": {
        "schemaVersion": "1.1",
        "routes": {
            "own": {"route": f"FROM /messages/modules/m/outputs/own {SINK}", "timeToLiveSecs": 3600},
            "plain": f"FROM /messages/modules/m/outputs/plain {SINK}",
        },
        "storeAndForwardConfiguration": {"timeToLiveSecs": 3600},
    },
}
OWN, PLAIN = ({"source": f"/messages/modules/m/outputs/{name}", "body": name} for name in ("own", "plain"))


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[EdgeAgent]:
    made = EdgeAgent(tmp_path, "ws://127.0.0.1:1", checkEntireQueueOnCleanup="true")
    yield made
    if made.running is not None:
        made.kill()


def waiting(agent: EdgeAgent) -> tuple[int, int]:
    """Of the one endpoint: messages that wait, and that expired."""
    queues = agent.get("/v1/status")[1]["queues"]
    return sum(queue["length"] for queue in queues), sum(queue["expired"] for queue in queues)


def bodies(agent: EdgeAgent) -> list[Any]:
    taken = agent.get("/v1/modules/filter/inputs/in/messages?max=10&wait=0")[1]["messages"]
    return [each["body"] for each in taken]


def until_waiting(agent: EdgeAgent, length: int, expired: int) -> None:
    wait_until(
        f"{length} wait and {expired} expired", lambda: waiting(agent) == (length, expired), seconds=100,
        describe=lambda: str(waiting(agent)),
    )  # fmt: skip


def publish_own(agent: EdgeAgent) -> None:
    """As soon as the routes run."""
    own = {"messages": [OWN]}
    wait_until("the routes run", lambda: agent.ask("POST", "/v1/messages", own)[0] == 200, seconds=100)


async def test_the_default_counts_for_what_waits_and_a_routes_own_time_does_not_change(
    tmp_path: Path, agent: EdgeAgent
) -> None:
    """Accepted for an hour; the object's default becomes a second: one expires, also for the agent's next life."""
    async with HubServer() as hub:
        agent.set(HUB_URL=hub.url)
        await asyncio.to_thread(agent.start)
        peer = await hub.open()
        await peer.hold(ROUTES, plural="edgeroutes")
        await asyncio.to_thread(publish_own, agent)
        answer = (await asyncio.to_thread(agent.ask, "POST", "/v1/messages", {"messages": [PLAIN]}))[1]
        assert [each["ttl"] for each in answer["results"][0]["deliveries"]] == [3600]
        assert await asyncio.to_thread(waiting, agent) == (2, 0)
        shorter = copy.deepcopy(ROUTES)
        shorter["spec"]["storeAndForwardConfiguration"]["timeToLiveSecs"] = 1
        await peer.settled(await peer.update(shorter, plural="edgeroutes", version="2"))
        await asyncio.to_thread(until_waiting, agent, 1, 1)
        await asyncio.to_thread(agent.kill)
    await asyncio.to_thread(agent.start)
    assert await asyncio.to_thread(bodies, agent) == ["own"]


async def test_the_nodes_default_counts_over_a_restart(tmp_path: Path, agent: EdgeAgent) -> None:
    """The object says nothing; the settings say an hour, under the original's name, and then a second."""
    routes = copy.deepcopy(ROUTES)
    routes["spec"]["storeAndForwardConfiguration"] = {}
    async with HubServer() as hub:
        agent.set(HUB_URL=hub.url, storeAndForwardConfiguration='{"timeToLiveSecs": 3600}')
        await asyncio.to_thread(agent.start)
        peer = await hub.open()
        await peer.hold(routes, plural="edgeroutes")
        await asyncio.to_thread(publish_own, agent)
        assert (await asyncio.to_thread(agent.ask, "POST", "/v1/messages", {"messages": [PLAIN]}))[0] == 200
        assert await asyncio.to_thread(waiting, agent) == (2, 0)
        assert await asyncio.to_thread(agent.stop) == 0
    agent.set(storeAndForwardConfiguration='{"timeToLiveSecs": 1}')
    await asyncio.to_thread(agent.start)
    await asyncio.to_thread(until_waiting, agent, 1, 1)
    assert await asyncio.to_thread(bodies, agent) == ["own"]
