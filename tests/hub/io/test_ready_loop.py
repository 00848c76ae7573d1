"""The loop that carries out what the core wants done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
import uvloop
from tests.support.edges.upstream import until
from tests.support.hubs.hub_core import CONFIG_MAPS, Core

from fairlead_hub.core.sessions import TURN_FRAMES
from fairlead_hub.io.ready_loop import ReadyLoop
from fairlead_hub.ready import SessionOutput
from fairlead_hub.settings import RateLimit
from fairlead_wire.event import Event


class Shell:
    """What the loop hands out, in order."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.sent: list[set[str]] = []
        self.published: list[str] = []

    def send(self, outputs: Iterable[SessionOutput]) -> None:
        nodes = {output.session.node for output in outputs}
        if nodes:
            self.sent.append(nodes)

    def publish(self, events: Iterable[Event]) -> None:
        self.published += [event.type for event in events]


class OutputWriter:
    """Idle when the test says so."""

    def __init__(self, *, is_idle: bool = True) -> None:
        self.is_idle, self.pushed = is_idle, list[list[Any]]()

    def push(self, items: Sequence[Any]) -> None:
        self.is_idle = False
        self.pushed.append(list(items))


@pytest.fixture
def core() -> Core:
    made = Core("edge-1", "edge-2", messaging_url="http://127.0.0.1:9").rule(CONFIG_MAPS)
    made.has_shell = True
    made.now = time.monotonic()  # the clock of the loop
    return made


async def test_a_change_is_carried_out_without_being_asked_for(core: Core) -> None:
    """The core notifies; changes of one turn travel together."""
    shell = Shell(core)
    ReadyLoop(core.hub, shell, publishers=[shell])
    for node in ("edge-1", "edge-2"):
        core.hub.sessions.open(node, core.hello(node), core.now)
    await until(lambda: shell.sent)
    assert shell.sent == [{"edge-1", "edge-2"}]
    assert shell.published == ["node.connected", "node.connected"]


def acknowledged(core: Core) -> str:
    """The UID of an object that a node has now."""
    core.has_shell = False
    one = core.put("a")
    core.served()
    core.has_shell = True
    return one.uid


async def test_documents_wait_until_their_writer_is_idle(core: Core) -> None:
    """And Kubernetes Events likewise: in the core the newest replaces what is older."""
    documents, events = OutputWriter(is_idle=False), OutputWriter(is_idle=False)
    loop = ReadyLoop(core.hub, Shell(core), documents=documents, kube_events=events)
    uid = acknowledged(core)
    loop.perform()
    assert len(core.hub.status_cache) == 1 and documents.pushed == [] == events.pushed
    documents.is_idle = True
    loop.soon()
    await until(lambda: documents.pushed)
    [[write]] = documents.pushed
    assert write.wanted.name[2].endswith(uid) and events.pushed == []
    documents.is_idle = events.is_idle = True
    loop.soon()
    await until(lambda: len(documents.pushed) == 2)
    assert documents.pushed[1] == [] and events.pushed == [[]], "it asked, and there is nothing"


async def test_a_writer_that_has_gone_is_given_nothing(core: Core) -> None:
    """What it would have written stays in the core."""
    documents = OutputWriter()
    loop = ReadyLoop(core.hub, Shell(core), documents=documents)
    documents.is_idle = False
    acknowledged(core)
    loop.perform()
    assert len(core.hub.status_cache.take(core.now)) == 1 and not documents.pushed


async def test_a_socket_that_fails_costs_no_document(core: Core) -> None:
    """A mistake while sending must not lose what was taken in the same turn, nor end the loop."""

    class Broken(Shell):
        def send(self, outputs: Iterable[SessionOutput]) -> None:
            super().send(outputs)
            raise RuntimeError("a mistake of ours")

    shell, documents = Broken(core), OutputWriter()
    loop = ReadyLoop(core.hub, shell, documents=documents)
    acknowledged(core)
    with pytest.raises(RuntimeError):
        loop.perform()
    assert len(documents.pushed[0]) == 1
    core.put("b")
    with pytest.raises(RuntimeError):
        loop.perform()
    assert shell.sent[-1] == {"edge-1"}


async def test_a_session_with_more_than_one_turn_allows_is_not_paced(core: Core) -> None:
    """Its rest follows with the next turn of the event loop."""
    core.has_shell = False
    edge = core.connect()
    assert edge.sent() == []
    core.has_shell = True
    shell, loop = Shell(core), asyncio.get_running_loop()
    ready = ReadyLoop(core.hub, shell)
    for number in range(3 * TURN_FRAMES):
        core.put(f"a{number}")
    ready.perform()
    for _ in range(2):
        began = loop.time()
        count = len(shell.sent)
        while len(shell.sent) == count and loop.time() - began < 20:  # noqa: ASYNC110 - turns of the loop are counted
            await asyncio.sleep(0)
        assert shell.sent[-1] == {"edge-1"}
    assert not core.take_ready().sessions, "three turns were enough"


class Sender(Shell):
    """Notes each object."""

    def send(self, outputs: Iterable[SessionOutput]) -> None:
        for output in outputs:
            self.sent += [{output.session.node} for header, _ in output.frames if hasattr(header, "uid")]


async def test_what_waited_for_the_overall_rate_limit_is_sent_without_a_further_change() -> None:
    """The loop comes back when the next turn is there."""
    core = Core("edge-1", "edge-2", rate_limit=RateLimit(objects_per_second=50, burst=1)).rule(CONFIG_MAPS)
    core.has_shell = True
    core.now = asyncio.get_running_loop().time()
    for node in ("edge-1", "edge-2"):
        core.hub.sessions.open(node, core.hello(node), core.now)
    shell = Sender(core)
    ReadyLoop(core.hub, shell)
    started = core.now
    for number in range(5):
        core.put(f"a{number}")
    await until(lambda: len(shell.sent) == 10)
    assert asyncio.get_running_loop().time() - started >= 9 / 50 - 0.01
    assert sum(nodes == {"edge-1"} for nodes in shell.sent) == 5


def test_it_runs_on_the_loop_that_the_hub_runs_on(core: Core) -> None:
    """uvloop's handles for a time that is over know no time; a writer is idle while such a one waits."""

    async def asked() -> list[Any]:
        documents = OutputWriter()
        ReadyLoop(core.hub, Shell(core), documents=documents).soon()
        await until(lambda: documents.pushed)
        return documents.pushed

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(asked()) == [[]]
