"""Whatever is done to it in whatever order: the outbox on disk and its twin say the same, and the books balance."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead_edge.errors import KeyReused, StoreFull
from fairlead_edge.io.outbox.sqlite_outbox import SqliteOutbox
from fairlead_edge.outbox import outbox
from fairlead_edge.outbox.memory_outbox import MemoryOutbox
from fairlead_edge.outbox.outbox import (
    Entry,
    IdempotencyKey,
    Outbox,
    Reference,
    Refusal,
    RefusedInputPolicy,
    RefusedMessage,
)
from fairlead_edge.outbox.queues import NOTHING_DONE, QueueId

QUEUES = [QueueId("iothub", 0), QueueId("iothub"), QueueId("edge-1/m/in", 3)]
MAX_BYTES = 3000
REFUSED = QueueId("edge-1/$mqtt/refused")
AT = "2026-11-20T12:00:00.000Z"
KEPT = RefusedInputPolicy(share=0.2, seconds=30)

queues = st.sampled_from(QUEUES)
offsets = st.lists(st.integers(0, 12), max_size=4, unique=True)
appends = st.tuples(
    st.just("append"),
    st.lists(
        st.tuples(
            st.integers(1, 300),
            st.lists(queues, min_size=1, max_size=3, unique=True),
            st.sampled_from([None, 0, 3, 30]),
        ),
        max_size=4,
    ),
    st.sampled_from([None, "k1", "k2"]),
    st.booleans(),
)
settles = st.tuples(st.just("settle"), queues, offsets, offsets, st.integers(-1, 12))
steps = st.one_of(
    appends,
    settles,
    st.tuples(st.just("pass time"), st.sampled_from([1.0, 5.0, 40.0])),
    st.tuples(st.just("sweep"), st.booleans()),
    st.tuples(st.just("replay"), st.one_of(st.none(), st.lists(st.integers(1, 8), max_size=3, unique=True))),
    st.tuples(st.just("refuse"), st.lists(st.integers(1, 300), min_size=1, max_size=3)),
    st.tuples(st.just("route again"), queues, offsets, st.lists(queues, max_size=2, unique=True)),
    st.tuples(st.just("discard"), st.lists(st.integers(1, 12), max_size=4, unique=True)),
    st.tuples(st.just("fetch"), queues, st.integers(-1, 8), st.integers(1, 5), st.integers(1, 600)),
    st.tuples(st.just("reopen")),
)


async def perform(box: Outbox, step: Any, now: float) -> Any:
    """One step on one outbox; refusals are answers too."""
    match step:
        case ("append", messages, key, evict):
            entries = [
                Entry("", bytes([size % 256]) * size, tuple(Reference(queue, ttl, "d/t") for queue in to))
                for size, to, ttl in messages
            ]
            idempotency = None if key is None else IdempotencyKey(key, repr(messages).encode(), repr(now).encode())
            try:
                return await box.append(entries, now=now, idempotency=idempotency, evict=evict)
            except (StoreFull, KeyReused) as error:
                return type(error)
        case ("settle", queue, sent, refused, checkpoint):
            refusals = [Refusal(offset, "no", "why") for offset in refused if offset not in sent]
            return await box.settle(queue, sent=sent, refused=refusals, checkpoint=checkpoint, at=AT)
        case ("sweep", entire):
            swept = 0  # how much one step takes is the store's affair
            while step_swept := await box.sweep(now=now, entire=entire):
                swept += step_swept
            return swept
        case ("replay", numbers):
            try:
                return await box.replay(numbers, now=now)
            except StoreFull:
                return StoreFull
        case ("refuse", sizes):
            refused = [
                RefusedMessage(Entry("", bytes([size % 256]) * size, (Reference(REFUSED),)), "no", "why")
                for size in sizes
            ]
            try:
                return await box.refuse(refused, now=now, at=AT)
            except StoreFull:
                return StoreFull
        case ("route again", queue, wanted, to):
            entry = Entry("", b"again", tuple(Reference(each, None, "d/t") for each in to)) if to else None
            try:
                return await box.route_again(queue, [(offset, entry) for offset in wanted], now=now)
            except StoreFull:
                return StoreFull
        case ("discard", numbers):
            return await box.discard(numbers)
        case ("fetch", queue, after, messages_max, bytes_max):
            return await box.fetch(queue, after=after, now=now, messages_max=messages_max, bytes_max=bytes_max)
        case _:
            return None


async def run(todo: list[Any], folder: Path) -> None:
    twin = MemoryOutbox(epoch=1, max_bytes=MAX_BYTES, refused=KEPT)
    real = SqliteOutbox(folder / "outbox.db", epoch=1, max_bytes=MAX_BYTES, refused=KEPT)
    now = 0.0
    try:
        for step in todo:
            if step[0] == "pass time":
                now += step[1]
            elif step[0] == "reopen":
                await real.close()
                real = SqliteOutbox(folder / "outbox.db", epoch=1, max_bytes=MAX_BYTES, refused=KEPT)
            assert await perform(real, step, now) == await perform(twin, step, now)
            status = await real.status(now=now)
            assert status == await twin.status(now=now)
            assert await real.queues() == await twin.queues()
            assert await real.dead_letters() == await twin.dead_letters()
            for queue in status.queues:
                ended = queue.sent + queue.expired + queue.evicted + queue.dead_lettered
                assert queue.accepted == ended + queue.length
                live = await real.fetch(
                    QueueId(queue.endpoint, queue.priority),
                    after=NOTHING_DONE,
                    now=now,
                    messages_max=999,
                    bytes_max=10**9,
                )
                assert (len(live), sum(len(item.content) for item in live)) == (queue.length, queue.bytes)
            assert status.refused_bytes <= MAX_BYTES * KEPT.share
            assert 0 <= status.bytes <= MAX_BYTES + outbox.REFERENCE_BYTES * 12 + 300 * 12
    finally:
        await real.close()


@pytest.mark.verify
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, min_size=1, max_size=25))
def test_disk_and_twin_agree_and_the_books_balance(todo: list[Any]) -> None:
    """accepted = sent + expired + evicted + dead-lettered + waiting, after every step, also across reopening."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(todo, Path(folder)))
