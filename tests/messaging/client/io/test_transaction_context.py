"""Messages and other changes stand or fall together; more in the conformance suite."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.processes import wait_until
from tests.support.topics.messaging import Topics, keeps_alive, until
from tests.support.topics.messaging_clients import KINDS, Table
from tests.support.topics.messaging_clients import Client as Both
from tests.support.topics.messaging_service import MessagingService

from fairlead_messaging.client.errors import TransactionLost, TransactionOver
from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_messaging.client.io.sync_client import Client
from fairlead_messaging.client.io.transaction_context import (
    AsyncRenewal,
    AsyncTransactionContext,
    Renewal,
    TransactionContext,
)


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
    slow = Slow()
    async with AsyncClient(topics.url) as client:
        work = AsyncTransactionContext(client, participants=[slow])

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
    """So none is visible, to any reader, before what it is about."""
    slow = Slow()
    async with AsyncClient(topics.url) as client:

        async def run() -> None:
            async with AsyncTransactionContext(client, participants=[slow]) as work:
                await work.publish("default", "t", [b"a"])

        running = asyncio.create_task(run())
        await until(lambda: slow.asked == ["persist"])
        assert await topics.payloads("t") == []
        slow.go.set()
        await running
    assert await topics.committed("t") == ["a"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_work_lasts_longer_than_its_timeout(topics: Topics, kind: str) -> None:
    async with Both(kind, topics.url) as client, client.work(timeout_seconds=0.3) as work:
        await keeps_alive(topics, work.started.transactionWritePointer)
        await work.publish("default", "t", [b"a"])
    assert await topics.committed("t") == ["a"]


@pytest.mark.parametrize("kind", KINDS)
async def test_work_that_was_lost_is_not_persisted(topics: Topics, kind: str) -> None:
    """It is said when it is looked at, at the next publish and on leaving, before any participant writes."""
    table = Table()
    async with Both(kind, topics.url) as client:
        with pytest.raises(TransactionLost, match="invalidated"):
            async with client.work(table, timeout_seconds=0.3) as work:
                coordinator = (work if kind == "asyncio" else work.real)._coordinator
                await client.ask.finish_transaction(work.started.transactionWritePointer, "invalidate")
                await until(lambda: coordinator._lost() is not None)
                with pytest.raises(TransactionLost):
                    await work.publish("default", "t", [b"a"])
    assert table.asked == ["rollback"]
    assert await topics.payloads("t") == []


# ── without an event loop ───────────────────────────────────────────────────────────────────────────────


# --- A transaction renewed in the background against the real service, also over kill -9.


@pytest.mark.slow
async def test_a_task_keeps_it_alive_and_says_when_it_is_lost(topics: Topics) -> None:
    """The service's clock goes on by more than a timeout, from renewal to renewal; then an operator ends it."""
    async with AsyncClient(topics.url) as client:
        pointer = (await client.start_transaction(0.3)).transactionWritePointer
        async with AsyncRenewal(client, pointer, timeout_seconds=0.3) as renewal:
            await keeps_alive(topics, pointer)
            renewal.check()
            await client.finish_transaction(pointer, "invalidate")
            await until(lambda: renewal.lost is not None)
            with pytest.raises(TransactionLost, match="invalidated"):
                renewal.check()


@pytest.mark.slow
async def test_a_thread_does_too(topics: Topics) -> None:
    with Client(topics.url) as client:
        pointer = (await asyncio.to_thread(client.start_transaction, 0.3)).transactionWritePointer
        renewal = Renewal(client, pointer, timeout_seconds=0.3)
        renewal.start()
        await keeps_alive(topics, pointer)
        renewal.check()
        await asyncio.to_thread(client.finish_transaction, pointer, "invalidate")
        await until(lambda: renewal.lost is not None)
        with pytest.raises(TransactionLost, match="invalidated"):
            renewal.check()
        await asyncio.to_thread(renewal.stop)
        await until(lambda: not [each for each in threading.enumerate() if each.name == "transaction-renewal"])


@pytest.mark.process
@pytest.mark.verify
def test_renewals_and_what_was_stored_survive_kill_9(tmp_path: Path) -> None:
    """Stored before, renewed before and after, published and committed after; what is not renewed ends, and says so."""
    with MessagingService(tmp_path / "service") as service, Client(service.url) as client:
        service.create("default/t")
        service.create("default/u")
        pointer, left_alone = (client.start_transaction(100).transactionWritePointer for _ in range(2))
        client.store_in(pointer, "default", "t", [b"a", b"b"])
        client.publish_in(left_alone, "default", "u", [b"c"])
        renewed = client.renew_transaction(pointer, 500)
        service.kill()
        service.start()
        found = {each.transactionWritePointer: each for each in client.transactions()}
        assert (found[pointer].expires, found[pointer].timeout) == (renewed.expires, 500)
        assert [each.messages for each in found[pointer].stored] == [2]
        assert client.renew_transaction(pointer).expires > renewed.expires
        client.publish("default", "t", [b"plain"])
        assert [each.payload for each in client.messages("default", "t")] == [b"plain"]
        client.publish_in(pointer, "default", "t", [])
        client.commit(pointer)
        assert [each.payload for each in client.messages("default", "t")] == [b"plain", b"a", b"b"]
        client.renew_transaction(left_alone, 0.001)
        service.kill()
        service.start()
        wait_until("it ends", lambda: not client.transactions(), seconds=120)
        with pytest.raises(TransactionOver) as over:
            client.commit(left_alone)
        assert (over.value.state, over.value.ended_by) == ("invalid", "timeout")
        assert [(each.transactionWritePointer, each.ended_by) for each in client.transactions("invalid")] == [
            (left_alone, "timeout")
        ]
        assert list(client.messages("default", "u")) == []


@pytest.mark.process
@pytest.mark.verify
def test_work_goes_on_over_a_restart_of_the_service(tmp_path: Path) -> None:
    """Renewals that met no service are repeated; what was stored before is published after it."""
    with MessagingService(tmp_path / "service") as service, Client(service.url) as client:
        service.create("default/t")
        with TransactionContext(client, timeout_seconds=60, buffer_bytes_max=0) as work:
            work.publish("default", "t", [b"before"])
            begun = work.started.expires
            service.kill()
            service.start()
            wait_until("a renewal", lambda: client.transactions()[0].expires > begun, seconds=120)
            work.check()
            work.publish("default", "t", [b"after"])
        assert [each.payload for each in client.messages("default", "t")] == [b"before", b"after"]
