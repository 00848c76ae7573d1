"""The running service: its identity, its chores, its end."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.topics.messaging import Clock, serving, until

from fairlead_messaging.api.errors import Unavailable
from fairlead_messaging.server.io.broker import Broker, Notifier
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
        await until(lambda: topics.broker.notifier.waiting == 1)
        topics.broker.stop_waiting()
        assert (await waiting).ids == []
        assert (await topics.ask("GET", "/readyz")).status == 503
        broker = topics.broker
    with pytest.raises(Unavailable):
        await broker.change(Start(timeout_seconds=1))


# --- Waking waiting readers.


async def test_only_the_topics_own_listeners_are_woken() -> None:
    """Others go on waiting; none is left behind."""
    notifier = Notifier()
    one, other = notifier.subscribe(("n", "t")), notifier.subscribe(("n", "u"))
    notifier.notify({("n", "t"), ("n", "unheard")})
    assert (one.done(), other.done()) == (True, False)
    notifier.notify_all()
    await asyncio.gather(one, other)
    await asyncio.sleep(0)
    assert notifier.waiting == 0


async def test_a_cancelled_listener_is_forgotten() -> None:
    """A client that hung up costs nothing."""
    notifier = Notifier()
    waiting = notifier.subscribe(("n", "t"))
    waiting.cancel()
    notifier.notify({("n", "t")})
    await asyncio.sleep(0)  # callbacks of futures run in the loop's next round
    assert notifier.waiting == 0
