"""The edge is killed with -9, or its link cut, at random while objects stream in; then its store is checked.

Law: for every object the edge holds a state that was sent, and none older than the last one it acknowledged.  A missing
acknowledged state counts as lost, one that was never sent as untrue.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
from tests.faults.collect import Count
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.hubs.hub_server import HubServer, Peer, config_map, path_of
from websockets.exceptions import ConnectionClosed

from fairlead_wire import message
from fairlead_wire.link import codec
from fairlead_wire.objects import digest

ROOM = "downstream"
KILLS = 200
OBJECTS = 40
CUTS = 0.3
"""Share of the rounds in which only the link is cut."""
BURST_MAX = 400
DELETES = 0.15
AFTER_FIRST_ACK = 0.7
"""Share of the rounds that wait for the first answer before choosing the moment, so that slow machines have some."""


class History:
    """The states sent of one object, oldest first: a digest, or None for its deletion.  At first it is absent."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.states: list[str | None] = [None]
        self.acknowledged = 0

    def judge(self, found: str | None) -> str:
        """ "" if ``found`` is allowed, else "lost" or "untrue".  It becomes the acknowledged state."""
        for index in range(len(self.states) - 1, self.acknowledged - 1, -1):
            if self.states[index] == found:
                self.acknowledged = index
                return ""
        return "lost" if found is None or found in self.states else "untrue"


class Fleet:
    """All objects, and what each message in flight was about."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._histories = {f"n-{number}": History(f"n-{number}") for number in range(OBJECTS)}
        self._flying: dict[int, tuple[History, int]] = {}
        self._serial = 0
        self.heard = asyncio.Event()
        """Something was acknowledged in this session."""
        self.count = Count(kills=0, acknowledged=0, lost=0, duplicated=0, untrue=0)

    async def check(self, peer: Peer) -> None:
        """Ask for everything that the edge holds, and check it."""
        self._flying.clear()
        self.heard.clear()
        await peer.send(message.ListBuckets(id=peer.take_id(), bits=0, buckets=[0]))
        found: dict[str, str] = {}
        while True:
            header, content = await peer.expect(message.Entries)
            plain = codec.unpack(header.encoding, content)
            found |= {
                entry.resource: entry.digest for entry in msgspec.json.decode(plain, type=list[message.HeldEntry])
            }
            if header.last:
                break
        if len(found) != peer.hello.held:
            self.count["untrue"] += 1
        for history in self._histories.values():
            verdict = history.judge(found.get(path_of(config_map(history.name), "configmaps")))
            if verdict == "lost":
                self.count["lost"] += 1
            elif verdict == "untrue":
                self.count["untrue"] += 1

    async def send(self, peer: Peer, messages: int) -> None:
        """A burst of updates and deletes."""
        for _ in range(messages):
            history = self._random.choice(list(self._histories.values()))
            self._serial += 1
            document = config_map(history.name, data=f"{self._serial}-{'x' * self._random.randrange(3000)}")
            if self._random.random() < DELETES:
                history.states.append(None)
                id = await peer.delete(document)
            else:
                history.states.append(digest.content_digest(msgspec.json.encode(document)))
                id = await peer.update(document)
            self._flying[id] = history, len(history.states) - 1

    async def listen(self, peer: Peer) -> None:
        """Note acknowledgements until the connection ends."""
        while True:
            header, _ = await peer.receive()
            if isinstance(header, message.Nack):
                self.count["untrue"] += 1
            elif isinstance(header, message.Ack):
                self.heard.set()
                covered = (
                    [id for id in self._flying if id <= header.parent_id] if header.cumulative else [header.parent_id]
                )
                for id in covered:
                    history, index = self._flying.pop(id)
                    history.acknowledged = max(history.acknowledged, index)
                    self.count["acknowledged"] += 1


async def _round(hub: HubServer, agent: EdgeAgent, fleet: Fleet, random: Random) -> None:
    peer = await hub.open()
    await fleet.check(peer)
    listening = asyncio.create_task(fleet.listen(peer))
    sending = asyncio.create_task(fleet.send(peer, random.randrange(1, BURST_MAX)))
    if random.random() < AFTER_FIRST_ACK:
        await fleet.heard.wait()
    # Anywhere from before the first write to after the last, so choose a moment of the real clock.
    await asyncio.sleep(random.random() * 0.06)
    if random.random() < CUTS:
        peer.connection.transport.abort()
    else:
        agent.kill()
        fleet.count["kills"] += 1
        agent.launch()
    ended = await asyncio.gather(listening, sending, return_exceptions=True)
    for end in ended:
        if isinstance(end, BaseException) and not isinstance(end, ConnectionClosed):
            raise end


async def _run(kills: int, seed: int, progress: Callable[[str], None]) -> Count:
    random = Random(seed)
    fleet = Fleet(random)
    with tempfile.TemporaryDirectory() as folder:
        async with HubServer() as hub:
            agent = EdgeAgent(Path(folder), hub.url, LINK_ATTEMPT_SECONDS_MAX="0.05")
            agent.launch()
            try:
                while fleet.count["kills"] < kills:
                    await _round(hub, agent, fleet, random)
                    if fleet.count["kills"] % 50 == 0:
                        progress(f"edge objects: {fleet.count}")
                await fleet.check(await hub.open())
            finally:
                agent.kill()
        if any("traceback" in entry for entry in agent.events()):
            raise AssertionError(f"the edge logged a defect of its own:\n{agent.log.read_text()}")
    return fleet.count


def run(kills: int, seed: int, progress: Callable[[str], None]) -> Count:
    """Kill the edge ``kills`` times; ``seed`` decides what is sent and about when it is killed."""
    return asyncio.run(_run(kills, seed, progress))
