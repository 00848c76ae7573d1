"""Removal for good: what is gone for readers is gone from the disk in the end, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.topics.messaging import Topics, b64, serving

from fairlead_messaging.server.io.stores.rocksdb_kv import RocksKV
from fairlead_messaging.server.log import keys
from fairlead_messaging.server.retention import JUMP_MS, TRUST_AGAIN_MS, ClockJumpGuard
from fairlead_messaging.server.store.memory_kv import MemoryKV
from fairlead_messaging.server.store.ordered_kv import OrderedKV


def rows(kv: OrderedKV, *letters: bytes) -> int:
    """How many rows the tables hold; all tables of a generation when none are named."""
    named = letters or (keys.MESSAGE, keys.PAYLOAD, keys.MARK, keys.EXPIRY, keys.REFERENCE, keys.PRODUCER, keys.FENCE)
    with kv.snapshot() as snapshot:
        return sum(1 for letter in named for _ in snapshot.scan(letter, keys.above(letter)))


@pytest.fixture(params=["memory", "rocksdb"])
def kv(request: pytest.FixtureRequest, tmp_path: Path) -> OrderedKV:
    return RocksKV(tmp_path) if request.param == "rocksdb" else MemoryKV()


async def publish_by_reference(topics: Topics, *payloads: str) -> None:
    pointer, _ = await topics.start()
    await topics.store("t", *payloads, tx=pointer)
    await topics.publish("t", tx=pointer)
    await topics.finish(pointer, "commit")


async def test_topic_ttl_removes_messages_and_payloads(kv: OrderedKV) -> None:
    async with serving(kv) as topics:
        await topics.create("t", ttl=3)
        await topics.publish("t", *["x"] * 3000)
        await publish_by_reference(topics, "p")
        await topics.broker.cleaner.clean()
        assert rows(kv, keys.MESSAGE, keys.PAYLOAD) == 3002
        topics.clock.forward(3001)
        await topics.publish("t", "y")
        await topics.broker.cleaner.clean()
        assert rows(kv, keys.MESSAGE, keys.PAYLOAD, keys.REFERENCE) == 1
        assert await topics.payloads("t") == ["y"]
        assert (await topics.ok("POST", "topics/t/plan", {}))["rows"] == 1


async def test_old_generations_are_removed(kv: OrderedKV) -> None:
    async with serving(kv) as topics:
        for generation in range(3):
            await topics.create("t")
            await topics.publish("t", f"m{generation}", producer={"id": "p", "epoch": 1, "sequence": 0})
            await publish_by_reference(topics, "p")
            if generation < 2:
                await topics.ok("DELETE", "topics/t")
        await topics.broker.cleaner.clean()
        assert rows(kv, keys.MESSAGE) == 2
        assert await topics.payloads("t") == ["m2", "p"]
        await topics.ok("DELETE", "topics/t")
        await topics.broker.cleaner.clean()
        assert rows(kv) == 0
        await topics.create("t")
        assert (await topics.properties("t"))["generation"] == "4"


async def test_a_neighbour_with_a_similar_name_is_not_touched(kv: OrderedKV) -> None:
    async with serving(kv) as topics:
        for name in ("t", "t-1", "s"):
            await topics.create(name)
            await topics.publish(name, name)
        await topics.ok("DELETE", "topics/t")
        await topics.broker.cleaner.clean()
        assert await topics.payloads("t-1") == ["t-1"]
        assert await topics.payloads("s") == ["s"]


async def test_message_ttl_removes_single_messages(kv: OrderedKV) -> None:
    async with serving(kv) as topics:
        await topics.create("t", ttl=100)
        await topics.publish("t", "a", *({"payload": b64("b"), "ttl": 1} for _ in range(50)), "c")
        topics.clock.forward(1001)
        await topics.broker.cleaner.clean()
        assert rows(kv, keys.MESSAGE) == 2
        assert rows(kv, keys.EXPIRY) == 0
        assert await topics.payloads("t") == ["a", "c"]


async def test_stored_but_never_published(kv: OrderedKV) -> None:
    """Never delivered, and gone when the transaction is over, however it ends: a commit would lose them silently."""
    async with serving(kv) as topics:
        await topics.create("t")
        for how in ("abort", "invalidate"):
            pointer, _ = await topics.start()
            await topics.store("t", "kept", tx=pointer)
            await topics.publish("t", tx=pointer)
            await topics.store("t", "lost", tx=pointer)
            assert rows(kv, keys.PAYLOAD) == 2
            assert (await topics.finish(pointer, "commit")).code == "stored_unpublished"
            assert rows(kv, keys.PAYLOAD) == 2
            await topics.finish(pointer, how)
            assert rows(kv, keys.PAYLOAD) == 1
            await topics.ok("DELETE", "topics/t")
            await topics.broker.cleaner.clean()
            await topics.create("t")


async def test_silent_producers_are_forgotten_after_thirty_days(kv: OrderedKV) -> None:
    async with serving(kv) as topics:
        await topics.create("t", ttl=1)
        await topics.publish("t", "a", producer={"id": "p", "epoch": 1, "sequence": 0})
        topics.clock.forward(29 * 86_400_000)
        await topics.broker.cleaner.clean()
        assert rows(kv, keys.PRODUCER) == 1
        topics.clock.forward(2 * 86_400_000)
        await topics.broker.cleaner.clean()
        assert rows(kv, keys.PRODUCER) == 0


async def test_counting_goes_on_after_removal(kv: OrderedKV) -> None:
    async with serving(kv) as topics:
        await topics.create("t", ttl=10)
        await topics.publish("t", *["x"] * 5000)
        topics.clock.forward(6000)
        await topics.publish("t", *["y"] * 3000)
        topics.clock.forward(5000)
        await topics.broker.cleaner.clean()
        assert (await topics.ok("POST", "topics/t/plan", {}))["rows"] == 3000
        await topics.ok("PUT", "topics/t/readers/r", {"position": ""})
        [reader] = await topics.ok("GET", "topics/t/readers")
        assert (reader["lag_messages"], reader["lag_seconds"]) == (3000, 5.0)


# --- Nothing is deleted by a clock that has just jumped ahead.


def test_an_ordinary_clock_is_trusted() -> None:
    watch = ClockJumpGuard(1000, 0)
    assert watch.is_safe(61_000, 60_000)
    assert watch.is_safe(121_500, 120_000)
    assert watch.is_safe(50_000, 180_000)


def test_a_jump_ahead_is_not_until_it_lasted() -> None:
    watch = ClockJumpGuard(0, 0)
    days = 10 * 86_400_000
    assert not watch.is_safe(days, 60_000)
    assert not watch.is_safe(days + TRUST_AGAIN_MS - 60_000, TRUST_AGAIN_MS)
    assert watch.is_safe(days + TRUST_AGAIN_MS, 60_000 + TRUST_AGAIN_MS)


def test_a_clock_that_was_put_right_is_trusted_at_once() -> None:
    watch = ClockJumpGuard(0, 0)
    assert not watch.is_safe(5 * JUMP_MS, 1000)
    assert watch.is_safe(2000, 2000)
    assert watch.is_safe(3000, 3000)
