"""The running service: its identity, its chores, its end."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.topics.messaging import Clock, serving, until

from fairlead_messaging.api.errors import Unavailable
from fairlead_messaging.server.io.broker import Broker
from fairlead_messaging.server.settings import MessagingSettings
from fairlead_messaging.server.store.memory_kv import MemoryKV
from fairlead_messaging.server.transactions.commands import Start


async def test_a_data_directory_keeps_its_id() -> None:
    """Minted once; a reader can distinguish one service's positions from another's."""
    kv = MemoryKV()
    broker = Broker(kv, MessagingSettings(security="insecure"), Clock(), "first")
    assert broker.service_id == "first"
    for task in broker._tasks:
        task.cancel()
    again = Broker(kv, MessagingSettings(security="insecure"), Clock(), "second")
    assert again.service_id == "first"
    await again.close()


async def test_stopping_wakes_long_polls_and_refuses_changes() -> None:
    """No poll waits for a service that is going away."""
    async with serving() as topics:
        await topics.create("t")
        waiting = asyncio.create_task(topics.poll("t", wait_ms=60_000))
        await until(lambda: topics.broker.long_polls == 1)
        topics.broker.stop_waiting()
        assert (await waiting).ids == []
        assert (await topics.ask("GET", "/readyz")).status == 503
        broker = topics.broker
    with pytest.raises(Unavailable):
        await broker.change(Start(timeout_seconds=1))
