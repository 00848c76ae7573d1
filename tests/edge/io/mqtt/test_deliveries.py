"""Messages for subscribers: from a real broker on a store in memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable

import pytest_asyncio
from tests.support.edges import stored

from fairlead_edge.io.mqtt.deliveries import MqttDeliveries
from fairlead_edge.io.outbox.broker import ModuleBroker
from fairlead_edge.mqtt.session import Acknowledged, Subscribed
from fairlead_edge.mqtt.status import Counters
from fairlead_edge.mqtt.topics import InputFilter
from fairlead_edge.outbox.brokered.endpoint import Leased
from fairlead_edge.outbox.memory_outbox import MemoryOutbox
from fairlead_edge.outbox.outbox import Entry, Reference
from fairlead_edge.outbox.queues import QueueId

ENDPOINT = "edge-1/m/i"
ONE = Subscribed(InputFilter("fairlead/m/inputs/i", "m", "i", False), 1)
ALL = Subscribed(InputFilter("devices/edge-1/modules/m/inputs/#", "m", "", True), 1)


class Subscriber:
    def __init__(self, room: int = 100) -> None:
        self.room = room
        self.got: list[tuple[str, str]] = []
        self.changed = asyncio.Event()
        self.too_large: set[str] = set()
        self.holds: set[str] = set()
        self.all_acknowledged = asyncio.Event()
        self.batches: list[list[str]] = []

    async def ready(self) -> int:
        while not self.room:
            self.changed.clear()
            await self.changed.wait()
        return self.room

    def deliver(self, subscribed: Subscribed, input: str, endpoint: str, leased: Iterable[Leased]) -> dict[str, str]:
        leased = list(leased)
        found = [(endpoint, each.id) for each in leased if each.id not in self.too_large]
        self.got += found
        self.batches += [[id for _, id in found]] if found else []
        self.holds |= {id for _, id in found}
        self.room -= len(found)
        return {each.id: "it is too large" for each in leased if each.id in self.too_large}

    @property
    def has_unacknowledged(self) -> bool:
        return bool(self.holds)

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[bool]:
        if self.holds:
            self.all_acknowledged.clear()
            await self.all_acknowledged.wait()
        yield self.room > 0

    def acknowledged(self, *ids: str) -> None:
        self.holds -= set(ids)
        if not self.holds:
            self.all_acknowledged.set()


class Bench:
    def __init__(self) -> None:
        self.outbox = MemoryOutbox(epoch=1, max_bytes=1 << 20)
        self.broker = ModuleBroker(self.outbox, clock=lambda: 0.0, timestamp=lambda: "now", uniform=lambda: 0.0)
        self.counters = Counters()
        self.subscribers: list[Subscriber] = []
        self.deliveries = MqttDeliveries(self.broker, node="edge-1", counters=self.counters)

    async def store(self, *ids: str, endpoint: str = ENDPOINT) -> None:
        queue = QueueId(endpoint, 1)
        await self.outbox.append([Entry(id, stored.content(id), (Reference(queue),)) for id in ids], now=0.0)
        self.broker.appended([queue])

    async def begin(self, subscriber: Subscriber, subscribed: Subscribed = ONE) -> None:
        self.deliveries.begin(subscriber, subscribed)
        self.subscribers.append(subscriber)
        await self.settled()

    async def settled(self) -> None:
        """Until nothing is about to happen."""
        for _ in range(50):
            await asyncio.sleep(0)
        await self.deliveries.close()

    async def left(self) -> int:
        return sum(queue.length for queue in (await self.outbox.status(now=0.0)).queues)


@pytest_asyncio.fixture
async def bench() -> AsyncIterator[Bench]:
    opened = Bench()
    yield opened
    for subscriber in opened.subscribers:
        opened.deliveries.end_all(subscriber, [])


async def test_messages_are_leased_and_acknowledged(bench: Bench) -> None:
    subscriber = Subscriber()
    await bench.store("1", "2")
    await bench.begin(subscriber)
    await bench.store("3")
    await bench.settled()
    assert subscriber.got == [(ENDPOINT, "1"), (ENDPOINT, "2"), (ENDPOINT, "3")]
    assert await bench.left() == 3
    bench.deliveries.acknowledge([Acknowledged(*each, True) for each in subscriber.got])
    await bench.settled()
    assert await bench.left() == 0


async def test_qos_0_is_done_when_it_is_sent(bench: Bench) -> None:
    subscriber = Subscriber()
    await bench.begin(subscriber, Subscribed(ONE.inputs, 0))
    await bench.store("1")
    await bench.settled()
    assert (len(subscriber.got), await bench.left(), bench.counters.delivered) == (1, 0, 1)


async def test_no_more_than_there_is_room_for(bench: Bench) -> None:
    subscriber = Subscriber(room=2)
    await bench.store("1", "2", "3")
    await bench.begin(subscriber)
    assert len(subscriber.got) == 2
    subscriber.room = 5
    subscriber.changed.set()
    await bench.settled()
    assert len(subscriber.got) == 3


async def test_what_a_connection_had_goes_to_the_next(bench: Bench) -> None:
    first, second = Subscriber(), Subscriber()
    await bench.store("1")
    await bench.begin(first)
    bench.deliveries.end_all(first, first.got)
    await bench.settled()
    await bench.begin(second)
    assert second.got == [(ENDPOINT, "1")]


async def test_a_module_gets_all_of_its_inputs_and_those_that_come(bench: Bench) -> None:
    subscriber = Subscriber()
    await bench.store("1", endpoint="edge-1/m/a")
    await bench.store("x", endpoint="edge-1/other/a")
    await bench.begin(subscriber, ALL)
    await bench.store("2", endpoint="edge-1/m/b")
    await bench.settled()
    assert subscriber.got == [("edge-1/m/a", "1"), ("edge-1/m/b", "2")]
    bench.deliveries.end_all(subscriber, [])
    await bench.settled()
    await bench.store("3", endpoint="edge-1/m/c")
    await bench.settled()
    assert len(subscriber.got) == 2


async def test_after_unsubscribe_nothing_more_comes(bench: Bench) -> None:
    subscriber = Subscriber()
    await bench.begin(subscriber)
    bench.deliveries.end(subscriber, ONE.inputs.filter)
    await bench.store("1")
    await bench.settled()
    assert subscriber.got == []


async def test_what_is_too_large_is_given_back(bench: Bench) -> None:
    subscriber = Subscriber()
    subscriber.too_large = {"1"}
    await bench.store("1", "2")
    await bench.begin(subscriber)
    assert subscriber.got == [(ENDPOINT, "2")]
    assert bench.counters.undeliverable >= 1


async def test_what_a_connection_died_with_goes_one_by_one_to_the_next(bench: Bench) -> None:
    """Also where the next one has something in its hands already: it is given when that is acknowledged."""
    first, second = Subscriber(room=3), Subscriber()
    await bench.store("poison", "1", "2")
    await bench.begin(first)
    await bench.begin(second)
    await bench.store("3")
    await bench.settled()
    assert (first.batches, second.batches) == ([["poison", "1", "2"]], [["3"]])
    bench.deliveries.end_all(first, first.got)
    for expected in ("poison", "1", "2"):
        await bench.settled()
        assert second.batches[-1] != [expected]
        bench.deliveries.acknowledge([Acknowledged(ENDPOINT, second.batches[-1][0], True)])
        second.acknowledged(*second.batches[-1])
        await bench.settled()
        assert second.batches[-1] == [expected]
