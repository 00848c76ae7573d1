"""Pump, outbox and a hostile hub: whatever fails in whatever order, everything arrives once, in order, alarms first."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead_edge.outbox.memory_outbox import MemoryOutbox
from fairlead_edge.outbox.outbox import Entry, Item, Reference
from fairlead_edge.outbox.pump.pump import Pump
from fairlead_edge.outbox.pump.stream import Fetch, PumpWait, SendBatch, Settle
from fairlead_edge.outbox.queues import DEFAULT_PRIORITY, NOTHING_DONE, QueueId
from fairlead_edge.routes.endpoints import UPSTREAM
from fairlead_wire.message import Ack, Deferred, Nack, RefusedItem

PRIORITIES = (0, 5, DEFAULT_PRIORITY)
AT = "2026-11-20T12:00:00.000Z"


class World:
    """One node, one hub, a clock of ours, and dice for everything that may go wrong."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.box = MemoryOutbox(epoch=1, max_bytes=1 << 30)
        self.topic: dict[tuple[str, int], Item] = {}
        """What messaging holds, each (stream, sequence) once."""
        self.accepted: dict[tuple[str, int], float | None] = {}
        """Everything that was answered 200, with its time to end."""
        self.pump = Pump(UPSTREAM, uniform=self.random.random)
        self.flying: list[SendBatch] = []
        self.to_settle: list[Settle] = []
        self.connected = False
        self.calm = False

    async def run(self, ticks: int) -> None:
        for _ in range(ticks):
            await self.tick()
        self.calm = True
        for _ in range(2000):
            await self.tick()
            status = await self.box.status(now=self.now)
            if not self.flying and not self.to_settle and not any(queue.length for queue in status.queues):
                break
        await self.check()

    async def tick(self) -> None:
        self.now += self.random.choice([0.0, 0.1, 2.0])
        if not self.calm:
            await self.disturb()
        elif not self.connected:
            self.connect()
        await self.act()
        self.answer()
        await self.settle()

    async def disturb(self) -> None:
        dice = self.random.random()
        if dice < 0.3:
            await self.publish()
        elif dice < 0.4 and self.connected:
            self.disconnect()
        elif dice < 0.6 and not self.connected:
            self.connect()
        elif dice < 0.63:
            await self.crash()

    async def publish(self) -> None:
        queue = QueueId(UPSTREAM, self.random.choice(PRIORITIES))
        ttl = self.random.choice([None, None, 1.0, 60.0])
        count = self.random.choice([1, 3, 300])
        status = {each.queue: each.accepted for each in (await self.box.status(now=self.now)).queues}
        first = status.get(str(queue), 0)
        await self.box.append(
            [Entry("", b"{}", (Reference(queue, ttl, self.random.choice("abc")),)) for _ in range(count)], now=self.now
        )
        for offset in range(first, first + count):
            self.accepted[str(queue), offset] = None if ttl is None else self.now + ttl
        self.pump.appended(queue.priority)

    def connect(self) -> None:
        self.connected = True
        self.pump.link_up(self.random.choice([1, 2, 8]))

    def disconnect(self) -> None:
        """Some of what flies had arrived without our knowing."""
        self.connected = False
        for send in self.flying:
            if self.random.random() < 0.5:
                self.arrive(send, set())
            self.pump.lost(send.batch)
        self.flying.clear()
        self.pump.link_down()

    async def crash(self) -> None:
        """Power fails between any two effects: memory is gone, the store is what it is."""
        for send in self.flying:
            if self.random.random() < 0.5:
                self.arrive(send, set())
        self.flying.clear()
        self.to_settle.clear()
        self.connected = False
        self.pump = Pump(UPSTREAM, uniform=self.random.random)
        for queue in await self.box.queues():
            self.pump.found(queue, await self.box.checkpoint(queue))

    async def act(self) -> None:
        for _ in range(self.random.randint(0, 4)):
            step = self.pump.next(self.now)
            if isinstance(step, PumpWait):
                return
            await self.fetch(step)

    async def fetch(self, fetch: Fetch) -> None:
        items = await self.box.fetch(
            fetch.queue, after=fetch.after, now=self.now, messages_max=fetch.messages_max, bytes_max=fetch.bytes_max
        )
        effect = self.pump.fetched(fetch, items, self.now)
        if isinstance(effect, SendBatch):
            assert all(item.live(self.now) for item in effect.items)
            self.flying.append(effect)
        elif isinstance(effect, Settle):
            self.to_settle.append(effect)

    def answer(self) -> None:
        """The hub answers some of what flies, a stream's batches in order."""
        streams = set()
        for send in list(self.flying):
            if send.queue in streams or (self.random.random() < 0.4 and not self.calm):
                streams.add(send.queue)
                continue
            self.flying.remove(send)
            self.reply(send)

    def reply(self, send: SendBatch) -> None:
        dice = 1.0 if self.calm else self.random.random()
        answer: Ack | Nack
        if dice < 0.2:
            answer = Nack(parent_id=1, code="busy", reason="", retry_after=self.random.choice([None, 0.5, 30.0]))
        elif dice < 0.25:
            answer = Nack(parent_id=1, code="poison", reason="", permanent=True)
        elif dice < 0.45:
            answer = self.defer(send)
        elif dice < 0.5:
            stored = {index for index in range(len(send.items)) if self.random.random() < 0.5}
            self.arrive(send, set(range(len(send.items))) - stored)
            answer = Nack(parent_id=1, code="busy", reason="", stored=sorted(stored))
        else:
            refused = {index for index in range(len(send.items)) if self.random.random() < 0.01}
            self.arrive(send, refused)
            answer = Ack(parent_id=1, refused=[RefusedItem(index=index, code="no", reason="") for index in refused])
        settle = self.pump.answered(send.batch, answer, self.now)
        if settle is not None:
            self.to_settle.append(settle)

    def defer(self, send: SendBatch) -> Ack:
        """Some topics take nothing from some message on."""
        topics = [item.topic for item in send.items]
        deferred = [
            Deferred(
                index=self.random.choice([index for index, each in enumerate(topics) if each == topic]),
                code="over_quota", reason="", retry_after=self.random.choice([None, 0.5, 30.0]),
            )
            for topic in {*topics} if self.random.random() < 0.5
        ]  # fmt: skip
        answer = Ack(parent_id=1, deferred=deferred)
        self.arrive(send, set(answer.deferred_by_index(topics)))
        return answer

    def arrive(self, send: SendBatch, refused: set[int]) -> None:
        for index, item in enumerate(send.items):
            if index not in refused:
                self.topic[str(send.queue), item.offset] = item

    async def settle(self) -> None:
        for settle in list(self.to_settle):
            if self.random.random() < 0.3 and not self.calm:
                continue
            self.to_settle.remove(settle)
            await self.box.settle(
                settle.queue, sent=settle.sent, refused=settle.refused, checkpoint=settle.checkpoint, at=AT
            )
            self.pump.settled(settle.batch)

    async def check(self) -> None:
        status = await self.box.status(now=self.now)
        assert not any(queue.length for queue in status.queues), "something waits for ever"
        dead = {(str(letter.queue), letter.offset) for letter in await self.box.dead_letters(limit=10**6)}
        for key, expires in self.accepted.items():
            ended = key in self.topic or key in dead or (expires is not None and expires <= self.now)
            assert ended, f"{key} was accepted and is nowhere"
        for queue in status.queues:
            assert queue.accepted == queue.sent + queue.expired + queue.evicted + queue.dead_lettered
            assert queue.checkpoint >= NOTHING_DONE


@pytest.mark.verify
@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32))
def test_everything_accepted_ends_in_exactly_one_place(seed: int) -> None:
    """The topic, the dead letters, or expired by its own time to live; nothing waits for ever, nothing is nowhere."""
    asyncio.run(World(seed).run(60))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 8))
def test_no_less_urgent_batch_leaves_while_an_alarm_could(seed: int, window: int) -> None:
    """On a healthy link every batch is of the highest priority that had anything at its decision."""
    random = Random(seed)
    waiting: dict[int, list[Item]] = {priority: [] for priority in PRIORITIES}
    pump = Pump(UPSTREAM, uniform=random.random)
    pump.link_up(window)
    flying: list[SendBatch] = []
    stored = dict.fromkeys(PRIORITIES, 0)
    for _ in range(200):
        if random.random() < 0.5:
            priority = random.choice(PRIORITIES)
            count = random.choice([1, 400])
            start = stored[priority]
            stored[priority] += count
            waiting[priority] += [Item(offset, 1, "", 0, None, b"") for offset in range(start, start + count)]
            pump.appended(priority)
        step = pump.next(0)
        if isinstance(step, Fetch):
            batch = waiting[step.queue.priority][: step.messages_max]
            effect = pump.fetched(step, batch, 0)
            if isinstance(effect, SendBatch):
                urgent = next(priority for priority in PRIORITIES if waiting[priority])
                assert effect.queue.priority == urgent
                del waiting[urgent][: len(effect.items)]
                flying.append(effect)
        if flying and random.random() < 0.6:
            send = flying.pop(0)
            assert pump.answered(send.batch, Ack(parent_id=1), 0) is not None
            pump.settled(send.batch)
