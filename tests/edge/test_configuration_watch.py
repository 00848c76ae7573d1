"""Changes of configuration reach a program on the node: the program of `examples/watch` beside a real agent."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.hubs.hub_server import HubServer, Peer, config_map
from tests.support.processes import Running, start, wait_until

pytestmark = pytest.mark.process

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "watch" / "follow.py"
SEEN_SECONDS = 30.0
"""Far more than it takes, for a machine that is busy with other tests."""
RESTARTS = 2


class Follower:
    """The example program; ``values`` is what it was given, in order, None for "there is none"."""

    def __init__(self, agent: EdgeAgent, folder: Path, name: str) -> None:
        self._log = folder / "follow.log"
        command = [sys.executable, str(EXAMPLE), agent.url, "shop", name]
        self.running: Running = start("follow", command, self._log, environ={"PATH": "/usr/bin:/bin"})

    def values(self) -> list[str | None]:
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        found: list[Any] = []
        for line in lines:
            with contextlib.suppress(ValueError):  # the last one may be half written
                found.append(json.loads(line)["data"])
        return [None if each is None else each["value"] for each in found]

    def saw(self, value: str | None) -> None:
        """Wait until this is the last it was given."""

        def last() -> bool:
            self.running.require_alive()
            return self.values()[-1:] == [value]

        wait_until(f"the program sees {value}", last, seconds=SEEN_SECONDS, describe=self.running.tail)


@pytest.fixture
def processes() -> Iterator[list[Running]]:
    started: list[Running] = []
    yield started
    for each in started:
        each.kill()


async def connected(hub: HubServer, agent: EdgeAgent, processes: list[Running]) -> Peer:
    await asyncio.to_thread(agent.start)
    assert agent.running is not None
    processes.append(agent.running)
    return await hub.open()


async def test_program_sees_each_change_and_misses_none_over_kills(tmp_path: Path, processes: list[Running]) -> None:
    """While the agent runs every version is an event; what came just before, or after, a kill -9 is seen as well."""
    async with HubServer() as hub:
        agent = EdgeAgent(tmp_path, hub.url, LINK_ATTEMPT_SECONDS_MAX="0.05")
        peer = await connected(hub, agent, processes)
        follower = Follower(agent, tmp_path, "prices")
        processes.append(follower.running)
        await asyncio.to_thread(follower.saw, None)
        for value in ("1", "2", "3"):
            await peer.hold(config_map("prices", data=value))
            await asyncio.to_thread(follower.saw, value)
        assert follower.values() == [None, "1", "2", "3"]

        number = 3
        for _ in range(RESTARTS):
            _, listed = await asyncio.to_thread(agent.get, "/api/v1/namespaces/shop/configmaps")
            number += 1
            await peer.hold(config_map("prices", data=str(number)))
            await asyncio.to_thread(agent.kill)  # the program may have been given it, or not
            peer = await connected(hub, agent, processes)
            await asyncio.to_thread(follower.saw, str(number))
            old = listed["metadata"]["resourceVersion"]
            path = f"/api/v1/namespaces/shop/configmaps?watch=true&resourceVersion={old}"
            status, body = await asyncio.to_thread(agent.get, path)
            assert (status, body["reason"]) == (410, "Expired")
            number += 1
            await peer.hold(config_map("prices", data=str(number)))
            await asyncio.to_thread(follower.saw, str(number))
        in_order = [int(value) for value in follower.values() if value]
        assert in_order == sorted(set(in_order)), "no state comes back, none comes twice"

        # Deleted and made anew while the program cannot ask: another object under the same name.
        await peer.settled(await peer.delete(config_map("prices")))
        await asyncio.to_thread(follower.saw, None)
        await peer.hold(config_map("prices", uid="uid-new", data="anew"))
        await asyncio.to_thread(follower.saw, "anew")
        assert not [entry for entry in agent.events() if "traceback" in entry]
