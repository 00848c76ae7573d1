"""A transaction renewed in the background against the real service, also over kill -9."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from tests.support.processes import wait_until
from tests.support.topics.messaging import Topics, keeps_alive, until
from tests.support.topics.messaging_service import MessagingService

from fairlead_messaging.client.errors import TransactionLost, TransactionOver
from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_messaging.client.io.sync_client import Client
from fairlead_messaging.client.io.transaction_context import AsyncRenewal, Renewal, TransactionContext


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


async def test_a_thread_does_too(topics: Topics) -> None:
    """Its caller's thread may do what it likes meanwhile."""
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
