"""Messages for modules over a real socket: answered when the store has them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from tests.support.edges.edge_link import running
from tests.support.hubs.hub_server import HubServer

from fairlead_edge.errors import StoreFailed
from fairlead_edge.io.link.link import Link
from fairlead_edge.io.link.module_inputs import AT_ONCE_MAX
from fairlead_edge.objects.memory_metastore import MemoryMetastore
from fairlead_wire import message

ID = "a" * 32


class Store:
    """Holds answers back until ``gate`` is set."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.taken: list[str] = []
        self.failure: Exception | None = None

    async def take(self, header: message.Input, content: bytes) -> message.Ack | message.Nack:
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        self.taken.append(header.message)
        return message.Ack(parent_id=header.id)

    async def states(self, ids: Sequence[str]) -> bytes:
        return b'[{"message":"%b","state":"consumed"}]' % ids[0].encode()


def link(url: str, store: Store | None) -> Link:
    return Link(
        hub_url=url, node="edge-1", agent="test", store_epoch=77, store=MemoryMetastore(), clock=lambda: 50.0,
        random=Random(1), attempt_seconds_max=0.01, stale_hub_seconds=600.0,
        inputs=None if store is None else lambda: store,
    )  # fmt: skip


def frame(number: int) -> message.Input:
    return message.Input(id=number, message=ID, module="camera", input="commands", ttl_seconds=5.0)


async def test_an_ack_comes_after_the_store_and_questions_are_answered() -> None:
    store = Store()
    async with HubServer() as hub, running(link(hub.url, store)):
        peer = await hub.accept()
        assert peer.hello.inputs
        await peer.welcome()
        await peer.send(frame(1), b"{}")
        await peer.send(message.AskInputs(id=2, messages=[ID]))
        states, content = await peer.expect(message.InputStates)
        assert states.parent_id == 2 and b"consumed" in content and store.taken == []
        store.gate.set()
        ack, _ = await peer.expect(message.Ack)
        assert (ack.parent_id, ack.cumulative, store.taken) == (1, False, [ID])


async def test_writes_passed_to_the_store_complete_after_the_link_is_gone() -> None:
    store = Store()
    async with HubServer() as hub, running(link(hub.url, store)):
        peer = await hub.open()
        await peer.send(frame(1), b"{}")
        await peer.send(message.AskInputs(id=2, messages=[ID]))
        await peer.expect(message.InputStates)
        await peer.connection.close()
        again = await hub.open()
        store.gate.set()
        await again.send(frame(1), b"{}")
        await again.expect(message.Ack)
        assert store.taken == [ID, ID]


async def test_too_many_at_once_end_the_session() -> None:
    store = Store()
    async with HubServer() as hub, running(link(hub.url, store)):
        peer = await hub.open()
        for number in range(1, AT_ONCE_MAX + 3):
            await peer.send(frame(number), b"{}")
        await hub.open()


async def test_an_agent_without_a_store_says_so() -> None:
    async with HubServer() as hub, running(link(hub.url, None)):
        peer = await hub.open()
        await peer.send(frame(1), b"{}")
        nack, _ = await peer.expect(message.Nack)
        assert (nack.code, nack.permanent) == ("no_store", False)
        await peer.send(message.AskInputs(id=2, messages=[ID]))
        assert (await peer.expect(message.InputStates))[1] == b"[]"


async def test_a_failed_disk_ends_the_link() -> None:
    store = Store()
    store.failure = StoreFailed("the disk failed")
    store.gate.set()
    async with HubServer() as hub:
        task = asyncio.create_task(link(hub.url, store).run())
        peer = await hub.open()
        await peer.send(frame(1), b"{}")
        [done], _ = await asyncio.wait([task], timeout=100)
        assert isinstance(done.exception(), StoreFailed)
