"""Brokered endpoints: who gets what, and who waits."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import Any

import pytest
from tests.support.edges import stored
from tests.support.edges.upstream import until

from fairlead_edge.io.outbox.broker import ModuleBroker
from fairlead_edge.outbox.brokered.endpoint import LEASE_SECONDS
from fairlead_edge.outbox.memory_outbox import MemoryOutbox
from fairlead_edge.outbox.outbox import Entry, Reference
from fairlead_edge.outbox.queues import QueueId
from fairlead_edge.routes.endpoints import UPSTREAM
from fairlead_wire.delivery_policy import DeliveryPolicy
from fairlead_wire.errors import Temporary

ENDPOINT = "edge-1/m/in"
POLICY = DeliveryPolicy(
    retries_with_no_delay=1, minimum_delay_retries=1, minimum_delay=5, maximum_delay=20, backoff_retries=1,
    maximum_delay_retries=0,
)  # fmt: skip
"""At once, after 5 s, after 5 s; then a dead letter."""


class Bench:
    """A broker on the in-memory outbox, with a clock that tests set."""

    def __init__(self) -> None:
        self.now = 0.0
        self.box = MemoryOutbox(epoch=1, max_bytes=1 << 20)
        self.broker = self.restarted()

    def restarted(self) -> ModuleBroker:
        """Another agent on the same store."""
        self.broker = ModuleBroker(
            self.box, clock=lambda: self.now, timestamp=lambda: "t", uniform=lambda: 0.5, policy=POLICY
        )
        return self.broker

    async def store(self, *names: str, priority: int = 3, ttl: float | None = None) -> None:
        queue = QueueId(ENDPOINT, priority)
        for name in names:
            await self.box.append([Entry(name, stored.content(name), (Reference(queue, ttl),))], now=self.now)
        self.broker.appended([queue])

    async def take(self, most: int = 10, wait: float = 0.0) -> list[str]:
        return [each.id for each in await self.broker.take(ENDPOINT, messages_max=most, wait_seconds=wait)]

    async def attempts(self) -> dict[str, int]:
        """Take everything available; returns the number of the attempt by message."""
        taken = await self.broker.take(ENDPOINT, messages_max=10, wait_seconds=0)
        return {each.id: each.attempt for each in taken}


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_most_urgent_first_and_each_once(bench: Bench) -> None:
    await bench.store("b", "c")
    await bench.store("a", priority=0)
    assert await bench.take(2) == ["a", "b"]
    assert await bench.take(2) == ["c"]
    assert await bench.take(2) == []


async def test_concurrent_takers_share(bench: Bench) -> None:
    await bench.store(*"abcdef")
    first, second = await asyncio.gather(bench.take(4), bench.take(4))
    assert sorted(first + second) == list("abcdef")


async def test_acknowledged_is_sent_in_the_books(bench: Bench) -> None:
    await bench.store("a", "b")
    await bench.take()
    assert await bench.broker.ack(ENDPOINT, ["b", "x"]) == ["x"]
    [queue] = (await bench.box.status(now=0)).queues
    assert (queue.sent, queue.length) == (1, 1)
    assert await bench.broker.ack("edge-1/other/in", ["a"]) == ["a"]


async def test_taker_is_woken_by_a_message_and_by_an_abandoned_one(bench: Bench) -> None:
    waiting = asyncio.create_task(bench.take(wait=30))
    await asyncio.sleep(0)
    await bench.store("a")
    assert await waiting == ["a"]
    waiting = asyncio.create_task(bench.take(wait=30))
    await asyncio.sleep(0)
    assert await bench.broker.abandon(ENDPOINT, ["a"]) == []
    assert await waiting == ["a"]


async def test_expired_message_is_not_handed_out(bench: Bench) -> None:
    await bench.store("a", ttl=5)
    await bench.store("b", ttl=5)
    assert await bench.take(1) == ["a"]
    await bench.broker.abandon(ENDPOINT, ["a"])
    bench.now = 5
    assert await bench.take() == []
    assert await bench.box.sweep(now=5, entire=True) == 2


async def test_asking_for_what_nobody_writes_leaves_nothing_behind(bench: Bench) -> None:
    """Endpoint names invented by a client cost no memory."""
    await bench.broker.load()
    before = dict(vars(bench.broker))
    for number in range(50):
        assert await bench.broker.take(f"edge-1/x/{number}", messages_max=1, wait_seconds=0) == []
        assert await bench.broker.abandon(f"edge-1/x/{number}", ["a"]) == ["a"]
    assert dict(vars(bench.broker)) == before


async def test_queues_on_disk_are_found_and_upstream_is_not_served(bench: Bench) -> None:
    await bench.store("a")
    await bench.box.append([Entry("u", b"{}", (Reference(QueueId(UPSTREAM)),))], now=0)
    bench.restarted()
    assert await bench.take() == ["a"]
    assert await bench.broker.take(UPSTREAM, messages_max=9, wait_seconds=0) == []


async def test_leases_and_attempts_outlive_a_restart(bench: Bench) -> None:
    """A module keeps its lease and may acknowledge; no other gets the message, and the count stays."""
    await bench.store("a", "b", "c")
    assert await bench.take() == ["a", "b", "c"]
    await bench.broker.abandon(ENDPOINT, ["c"])
    assert await bench.attempts() == {"c": 2}
    await bench.broker.abandon(ENDPOINT, ["c"])
    bench.restarted()
    assert await bench.take() == [], "a and b are in a module's hands, c waits five seconds"
    assert await bench.broker.ack(ENDPOINT, ["a"]) == []
    bench.now = 5
    assert await bench.attempts() == {"c": 3}
    bench.now = LEASE_SECONDS
    bench.restarted()
    assert await bench.attempts() == {"b": 2}


async def test_dead_letter_after_the_last_attempt_with_its_reason(bench: Bench) -> None:
    await bench.store("a", "b")
    running = asyncio.create_task(bench.broker.run())
    try:
        for wait in (0, 5, 5):
            assert await bench.take(1) == ["a"]
            assert await bench.broker.abandon(ENDPOINT, ["a"]) == []
            bench.now += wait
        assert await bench.take(1) == ["a"]
        assert await bench.broker.abandon(ENDPOINT, ["a"]) == []
        [letter] = await bench.box.dead_letters()
        assert (letter.code, letter.offset) == ("retries_used_up", 0)
        assert letter.reason == "delivered 4 times; the last time the module gave it back"
        assert await bench.broker.ack(ENDPOINT, ["a"]) == ["a"]
        await bench.box.replay(None, now=bench.now)
        bench.broker.appended([letter.queue])
        assert await bench.attempts() == {"b": 1, "a": 1}
        [queue] = (await bench.box.status(now=bench.now)).queues
        assert (queue.accepted, queue.length, queue.dead_lettered) == (2, 2, 0)
    finally:
        running.cancel()


async def test_message_that_fails_holds_up_no_other(bench: Bench) -> None:
    await bench.store(*"abcd")
    assert await bench.take(1) == ["a"]
    for _ in range(2):
        await bench.broker.abandon(ENDPOINT, ["a"])
        await bench.take(1)
    assert await bench.take() == ["c", "d"], "a waits, b is in a module's hands"
    await bench.broker.ack(ENDPOINT, ["b", "c", "d"])
    queue = QueueId(ENDPOINT, 3)
    assert await bench.box.checkpoint(queue) == -1
    bench.now = 5
    assert await bench.take() == ["a"]
    await bench.broker.ack(ENDPOINT, ["a"])
    assert await bench.box.checkpoint(queue) == 3


async def test_cancelled_caller_takes_nothing(bench: Bench) -> None:
    """If a module disconnects while it is answered, this is no attempt, and the message is available at once."""
    await bench.store("a")
    await bench.broker.load()
    gate = asyncio.Event()
    note = bench.box.note_attempts

    async def held_up(*arguments: Any) -> None:
        await gate.wait()
        await note(*arguments)

    bench.box.note_attempts = held_up  # type: ignore[method-assign, assignment]
    taking = asyncio.create_task(bench.take())
    await asyncio.sleep(0)
    waiting = asyncio.create_task(bench.take(wait=30))
    await until(lambda: bench.broker.counts()[ENDPOINT, 3][0] == 1)
    taking.cancel()
    gate.set()
    assert await waiting == ["a"]
    await bench.broker.abandon(ENDPOINT, ["a"])
    assert await bench.attempts() == {"a": 2}


async def test_full_disk_keeps_no_module_waiting(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taking messages frees space; a lease that could not be recorded holds until the agent restarts."""
    await bench.store("a")

    async def full(*_: Any) -> None:
        raise Temporary("the disk is full", retry_after_seconds=1)

    monkeypatch.setattr(bench.box, "note_attempts", full)
    assert await bench.take() == ["a"]
    assert await bench.take() == []
    assert await bench.broker.ack(ENDPOINT, ["a"]) == []


async def test_acknowledgement_the_store_could_not_take_may_be_repeated(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.store("a")
    await bench.take()

    async def full(*_: Any, **__: Any) -> None:
        raise Temporary("the disk is full", retry_after_seconds=1)

    with monkeypatch.context() as broken:
        broken.setattr(bench.box, "settle", full)
        with pytest.raises(Temporary):
            await bench.broker.ack(ENDPOINT, ["a"])
    assert await bench.take() == []
    assert await bench.broker.ack(ENDPOINT, ["a"]) == []


async def test_messages_in_hand_are_not_swept_and_do_not_hide_what_is_behind(bench: Bench) -> None:

    await bench.store(*(f"m{number}" for number in range(20)), ttl=10)
    assert len(await bench.take(15)) == 15
    bench.now = 11
    assert await bench.box.sweep(now=11, entire=True) == 5
    assert await bench.broker.ack(ENDPOINT, ["m0"]) == []
    [queue] = (await bench.box.status(now=11)).queues
    assert (queue.sent, queue.expired, queue.length) == (1, 5, 14)


def failing_once(call: Any, at: int = 1) -> Any:
    """The same call, whose ``at``-th use finds the disk full."""
    uses = itertools.count(1)

    async def failing(*arguments: Any, **named: Any) -> Any:
        if next(uses) == at:
            raise Temporary("the disk is full", retry_after_seconds=1)
        return await call(*arguments, **named)

    return failing


async def test_failed_settle_of_one_priority_leaves_the_others_as_they_were_decided(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.store("a", priority=0)
    await bench.store("b", priority=3)
    assert await bench.take() == ["a", "b"]
    monkeypatch.setattr(bench.box, "settle", failing_once(bench.box.settle))
    with pytest.raises(Temporary):
        await bench.broker.ack(ENDPOINT, ["a", "b"])
    await bench.broker.ack(ENDPOINT, ["a", "b"])
    assert sum(queue.length for queue in (await bench.box.status(now=bench.now)).queues) == 0


async def test_failed_dead_letter_of_one_priority_leaves_the_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have used up their attempts; one of them becomes a dead letter only at the second try."""
    await bench.store("a", priority=0)
    await bench.store("b", priority=3)
    assert await bench.take() == ["a", "b"]
    for bench.now in (60, 125, 200):
        assert [await bench.take(), await bench.take()] == [["a"], ["b"]]
    bench.now = 1000
    monkeypatch.setattr(bench.box, "settle", failing_once(bench.box.settle))
    for _ in range(3):
        await bench.take()
        bench.now += 100
    assert len(await bench.box.dead_letters()) == 2


@pytest.mark.parametrize("at", [1, 2])
async def test_queue_whose_read_failed_is_read_again(bench: Bench, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    await bench.store("a", priority=0)
    await bench.store("b", priority=3)
    monkeypatch.setattr(bench.box, "fetch", failing_once(bench.box.fetch, at))
    given: list[str] = []
    for _ in range(3):
        with contextlib.suppress(Temporary):
            given += await bench.take()
    assert given == ["a", "b"]


async def test_lease_that_ends_between_two_looks_at_the_clock_is_noticed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next lease ended while expired ones were being processed."""
    await bench.store("a")
    await bench.take()
    bench.now = LEASE_SECONDS - 0.001
    look = bench.broker._expire_leases

    async def slow(only: str | None = None) -> None:
        await look(only)
        bench.now = LEASE_SECONDS + 0.001

    monkeypatch.setattr(bench.broker, "_expire_leases", slow)
    running = asyncio.create_task(bench.broker.run())
    await until(lambda: bench.broker.counts()[ENDPOINT, 3] == (0, 1))
    running.cancel()


async def test_endpoints_are_named_as_they_come(bench: Bench) -> None:
    found: list[str] = []
    await bench.store("a")
    await bench.broker.load()
    with bench.broker.followed(found.append):
        before = list(found)
        bench.broker.appended([QueueId("edge-1/other/in"), QueueId("edge-1/other/in", 3)])
    bench.broker.appended([QueueId("edge-1/later/in")])
    assert len(before) == 1
    assert found == [*before, "edge-1/other/in"]


async def test_a_poison_message_takes_no_other_along(bench: Bench) -> None:
    """A module that is crashed by one message of a batch gets each message of it alone from then on."""
    await bench.store("a", "poison", "b", priority=3)
    done: list[str] = []
    bench.now = 0
    while bench.now < 2000 and len(await bench.box.dead_letters()) == 0:
        taken = await bench.take()
        if taken == ["a"]:
            await bench.store("new", priority=3) if not done else None
        if "poison" not in taken:
            await bench.broker.ack(ENDPOINT, taken)
            done += taken
        elif len(taken) > 1:
            assert bench.now == 0, "it failed before: nothing goes with it"
        if not taken or "poison" in taken:
            bench.now += 61
    assert sorted(done) == ["a", "b", "new"]
    assert len(await bench.box.dead_letters()) == 1
