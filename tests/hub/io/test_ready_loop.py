"""The loop that carries out what the core wants done."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
import uvloop
from tests.support.edges.upstream import until
from tests.support.hubs.hub_core import CONFIG_MAPS, Core

from fairlead_hub.delivery.session import NodeSession
from fairlead_hub.io.ready_loop import ReadyLoop
from fairlead_hub.settings import RateLimit
from fairlead_wire.event import Event


class Shell:
    """What the loop hands out, in order."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.sent: list[set[str]] = []
        self.published: list[str] = []

    def send(self, sessions: Iterable[NodeSession]) -> None:
        nodes = {session.node for session in sessions}
        if nodes:
            self.sent.append(nodes)

    def publish(self, events: Iterable[Event]) -> None:
        self.published += [event.type for event in events]


@pytest.fixture
def core() -> Core:
    made = Core("edge-1", "edge-2", messaging_url="http://127.0.0.1:9")
    made.rule(CONFIG_MAPS)
    made.has_shell = True
    return made


async def test_a_change_is_carried_out_without_being_asked_for(core: Core) -> None:
    """The core notifies; changes of one turn travel together."""
    shell = Shell(core)
    ReadyLoop(core.hub, shell, shell)
    for node in ("edge-1", "edge-2"):
        core.hub.open(node, core.hello(node), core.now)
    await until(lambda: shell.sent)
    assert shell.sent == [{"edge-1", "edge-2"}]
    assert shell.published == ["node.connected", "node.connected"]


async def test_documents_wait_until_their_writer_asks(core: Core) -> None:
    """And Kubernetes Events likewise: in the core the newest replaces what is older."""
    shell = Shell(core)
    loop = ReadyLoop(core.hub, shell)
    one = core.put("a")
    edge = core.connect()
    edge.ack(*[header for header in edge.sent() if hasattr(header, "uid")])
    loop.perform()
    assert len(core.hub.status_cache) == 1
    async with asyncio.timeout(100):
        [write] = await loop.documents()
    assert write.wanted.name[2].endswith(one.uid)
    async with asyncio.timeout(100):
        assert await loop.documents() == [] == await loop.kube_events()


async def test_a_writer_that_has_gone_is_given_nothing(core: Core) -> None:
    """What it had asked for stays in the core."""
    loop = ReadyLoop(core.hub, Shell(core))
    asked: asyncio.Task[Any] = asyncio.create_task(loop.documents())
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    core.put("a")
    edge = core.connect()
    edge.ack(*edge.sent())
    loop.perform()
    assert len(core.hub.status_cache.take(core.now)) == 1


async def test_a_socket_that_fails_costs_no_document(core: Core, caplog: pytest.LogCaptureFixture) -> None:
    """A mistake while sending must not lose what was taken in the same turn."""
    loop = ReadyLoop(core.hub, Shell(core))
    core.put("a")
    edge = core.connect()
    edge.ack(*[header for header in edge.sent() if hasattr(header, "uid")])

    class Broken(Shell):
        def send(self, sessions: Iterable[NodeSession]) -> None:
            raise RuntimeError("a mistake of ours")

    loop._sender = Broken(core)
    async with asyncio.timeout(100):
        assert len(await loop.documents()) == 1


class Sender(Shell):
    """Takes the frames, as the server does."""

    def send(self, sessions: Iterable[NodeSession]) -> None:
        for session in sessions:
            found = self.core.hub.frames(session, asyncio.get_running_loop().time(), 100)
            self.sent += [{session.node} for header, _ in found if hasattr(header, "uid")]


async def test_what_waited_for_the_overall_rate_limit_is_sent_without_a_further_change() -> None:
    """The loop comes back when the next turn is there."""
    core = Core("edge-1", "edge-2", rate_limit=RateLimit(objects_per_second=50, burst=1))
    core.rule(CONFIG_MAPS)
    core.has_shell = True
    core.now = asyncio.get_running_loop().time()
    for node in ("edge-1", "edge-2"):
        core.hub.open(node, core.hello(node), core.now)
    shell = Sender(core)
    ReadyLoop(core.hub, shell)
    started = core.now
    for number in range(5):
        core.put(f"a{number}")
    await until(lambda: len(shell.sent) == 10)
    assert asyncio.get_running_loop().time() - started >= 9 / 50 - 0.01
    assert sum(nodes == {"edge-1"} for nodes in shell.sent) == 5


def test_it_runs_on_the_loop_that_the_hub_runs_on(core: Core) -> None:
    """uvloop's handles for a time that is over know no time; documents are asked for while such a one waits."""

    async def asked() -> list[Any]:
        loop = ReadyLoop(core.hub, Shell(core))
        async with asyncio.timeout(100):
            return await loop.documents() + await loop.kube_events()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(asked()) == []
