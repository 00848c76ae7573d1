"""Brokered endpoints: who gets what, and who waits."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from fairlead_edge.io.outbox.broker import Broker
from fairlead_edge.outbox import envelope, lease
from fairlead_edge.outbox.memory_outbox import MemoryOutbox
from fairlead_edge.outbox.outbox import Entry, Reference
from fairlead_edge.outbox.queue_id import QueueId
from fairlead_edge.routes.sink import UPSTREAM

ENDPOINT = "edge-1/m/in"


class Bench:
    """A broker on the twin, with a clock that is set."""

    def __init__(self) -> None:
        self.now = 0.0
        self.box = MemoryOutbox(epoch=1, max_bytes=1 << 20)
        self.broker = Broker(self.box, clock=lambda: self.now, timestamp=lambda: "t")

    async def store(self, *names: str, priority: int = 3, ttl: float | None = None) -> None:
        queue = QueueId(ENDPOINT, priority)
        for name in names:
            message = envelope.Stored(
                id=name,
                source="/messages",
                enqueued_at="t",
                properties={},
                system_properties={},
                body=msgspec.Raw(b"1"),
            )
            await self.box.append([Entry(name, envelope.stored(message), (Reference(queue, ttl),))], now=self.now)
        self.broker.appended([queue])

    async def take(self, most: int = 10, wait: float = 0.0) -> list[str]:
        return [each.id for each in await self.broker.take(ENDPOINT, messages_max=most, wait_seconds=wait)]


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_most_urgent_first_and_each_once(bench: Bench) -> None:
    """Two takers never hold the same message."""
    await bench.store("b", "c")
    await bench.store("a", priority=0)
    assert await bench.take(2) == ["a", "b"]
    assert await bench.take(2) == ["c"]
    assert await bench.take(2) == []


async def test_concurrent_takers_share(bench: Bench) -> None:
    """Even when both asked before either was answered."""
    await bench.store(*"abcdef")
    first, second = await asyncio.gather(bench.take(4), bench.take(4))
    assert sorted(first + second) == list("abcdef")


async def test_acknowledged_is_sent_in_the_books(bench: Bench) -> None:
    """Durably, in any order."""
    await bench.store("a", "b")
    await bench.take()
    assert await bench.broker.ack(ENDPOINT, ["b", "x"]) == ["x"]
    [queue] = (await bench.box.status(now=0)).queues
    assert (queue.sent, queue.length) == (1, 1)
    assert await bench.broker.ack("edge-1/other/in", ["a"]) == ["a"]


async def test_taker_is_woken_by_a_message_and_by_an_abandoned_one(bench: Bench) -> None:
    """Without polling."""
    waiting = asyncio.create_task(bench.take(wait=30))
    await asyncio.sleep(0)
    await bench.store("a")
    assert await waiting == ["a"]
    waiting = asyncio.create_task(bench.take(wait=30))
    await asyncio.sleep(0)
    assert bench.broker.abandon(ENDPOINT, ["a"]) == []
    assert await waiting == ["a"]


async def test_lease_that_ran_out_gives_the_message_to_the_next(bench: Bench) -> None:
    """A module that died does not take its messages along."""
    await bench.store("a")
    await bench.take()
    bench.now = lease.LEASE_SECONDS
    assert await bench.take() == ["a"]


async def test_expired_message_is_not_handed_out(bench: Bench) -> None:
    """Time to live counts here too."""
    await bench.store("a", ttl=5)
    bench.now = 5
    assert await bench.take() == []


async def test_taking_from_an_unknown_endpoint_leaves_nothing_behind(bench: Bench) -> None:
    """Names made up by a client cost no memory."""
    before = dict(vars(bench.broker))
    for number in range(50):
        assert await bench.broker.take(f"edge-1/x/{number}", messages_max=1, wait_seconds=0) == []
        bench.broker.abandon(f"edge-1/x/{number}", ["a"])
    assert dict(vars(bench.broker)) == before


async def test_queues_on_disk_are_found_and_upstream_is_not_served(bench: Bench) -> None:
    """After a restart, before anything new comes."""
    await bench.store("a")
    await bench.box.append([Entry("u", b"{}", (Reference(QueueId(UPSTREAM)),))], now=0)
    restarted = Broker(bench.box, clock=lambda: 0.0, timestamp=lambda: "t")
    await restarted.load()
    assert [each.id for each in await restarted.take(ENDPOINT, messages_max=9, wait_seconds=0)] == ["a"]
    assert await restarted.take(UPSTREAM, messages_max=9, wait_seconds=0) == []
