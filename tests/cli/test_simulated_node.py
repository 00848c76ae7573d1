"""The simulated node obeys the protocol, and misbehaves as asked."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.edges.edge_link import until
from tests.support.hubs.hub_server import HubServer, config_map

from fairlead_cli.simulated_node import SimulatedNode
from fairlead_wire import message


@contextlib.asynccontextmanager
async def node_at(hub: HubServer, **options: Any) -> AsyncIterator[SimulatedNode]:
    node = SimulatedNode("edge-1", hub.url, **options)
    task = asyncio.create_task(node.run())
    try:
        yield node
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.slow
async def test_it_stores_and_acknowledges() -> None:
    async with HubServer() as hub, node_at(hub) as node:
        peer = await hub.accept()
        await peer.welcome(fence=7)
        sent = await peer.update(config_map("a"))
        assert (await peer.expect(message.Ack))[0].parent_id == sent
        assert list(node.held) == ["configmaps/shop/a"]
        await node.drop()
        again = await hub.accept()
        assert (again.hello.held, again.hello.fence) == (1, 7)


async def test_the_behaviour_nack_refuses_everything() -> None:
    async with HubServer() as hub, node_at(hub, behaviour="nack") as node:
        peer = await hub.accept()
        await peer.welcome(fence=1)
        await peer.update(config_map("a"))
        nack, _ = await peer.expect(message.Nack)
        assert nack.permanent and not node.held


async def test_the_behaviour_silent_never_acknowledges() -> None:
    async with HubServer() as hub, node_at(hub, behaviour="never-ack") as node:
        peer = await hub.accept()
        await peer.welcome(fence=1)
        await peer.update(config_map("a"))
        await until(lambda: node.figures.updates == 1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await peer.expect(message.Ack)
        assert not node.held


async def test_a_wiped_disk_has_a_new_epoch() -> None:
    node = SimulatedNode("edge-1", "ws://127.0.0.1:1")
    before = node.epoch
    node.wipe()
    assert node.epoch != before and not node.held
