"""Messages and other changes stand or fall together, on an event loop; more in the conformance suite."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.support.messaging import Topics, until

from fairlead_messaging.client.io.async_client import MessagingClient
from fairlead_messaging.client.io.transaction_context import UnitOfWork
from fairlead_wire.errors import LocalError


class Slow:
    """Persists until it is let go."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go = asyncio.Event()

    def changes(self) -> Sequence[str]:
        return ()

    async def persist(self) -> None:
        self.asked.append("persist")
        await self.go.wait()

    async def rollback(self) -> None:
        self.asked.append("rollback")


async def test_a_cancelled_task_rolls_back(topics: Topics) -> None:
    """Wherever the cancellation meets it, and the transaction does not hold up readers."""
    await topics.create("t")
    slow = Slow()
    async with MessagingClient(topics.url) as client:
        work = UnitOfWork(client, participants=[slow])

        async def run() -> None:
            async with work:
                await work.publish("default", "t", [b"a"])

        running = asyncio.create_task(run())
        await until(lambda: slow.asked == ["persist"])
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert running.cancelled()
        assert await client.transactions() == []
    assert slow.asked == ["persist", "rollback"]
    assert topics.broker._service.transactions.state(work.started.transactionWritePointer) == "aborted"


async def test_messages_are_not_published_before_participants_have_persisted(topics: Topics) -> None:
    """So none is visible, to anybody, before what it tells of."""
    await topics.create("t")
    slow = Slow()
    async with MessagingClient(topics.url) as client:

        async def run() -> None:
            async with UnitOfWork(client, participants=[slow]) as work:
                await work.publish("default", "t", [b"a"])

        running = asyncio.create_task(run())
        await until(lambda: slow.asked == ["persist"])
        assert await topics.payloads("t") == []
        slow.go.set()
        await running
    assert await topics.committed("t") == ["a"]


async def test_outside_of_its_block_it_refuses(topics: Topics) -> None:
    """A mistake of the program's is told as one."""
    async with MessagingClient(topics.url) as client:
        with pytest.raises(LocalError):
            await UnitOfWork(client).publish("default", "t", [b"a"])
