"""The cache never changes an answer."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from tests.support.dose import dose
from tests.support.topics.messaging import Topics, b64, serving, until

from fairlead_messaging.api.message_id import FIRST, ID_BYTES, MessageId
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.page_cache import ANY, CachedPage, PageCache, PageKey, page_key

TOPIC = TopicGeneration(namespace="n", name="t", generation=1, ttl_seconds=10)


def at(number: int) -> MessageId:
    return MessageId(number.to_bytes(ID_BYTES, "big"))


def page(size: int, *, first: MessageId, end: bytes | None = None) -> CachedPage:
    return CachedPage(body=bytes(size), next_position=FIRST, count=1, first=first, oldest_live=FIRST, end=end)


def got(
    cache: PageCache,
    key: PageKey,
    *,
    isolation: str = "none",
    oldest_live: MessageId = FIRST,
    log_end: bytes | None = None,
    now_ms: int = 0,
) -> CachedPage | None:
    return cache.get(key, isolation, oldest_live=oldest_live, log_end=log_end, now_ms=now_ms)


def test_the_budget_holds_and_the_least_used_goes_first() -> None:
    cache = PageCache(5000)
    for number in range(5):
        cache.put(page_key(TOPIC, at(number), 10, "x"), ANY, page(500, first=at(5)))
        got(cache, page_key(TOPIC, at(0), 10, "x"))
        assert cache.size <= 5000
    cache.put(page_key(TOPIC, at(98), 10, "x"), ANY, page(3000, first=at(5)))
    assert got(cache, page_key(TOPIC, at(0), 10, "x")) is not None
    assert got(cache, page_key(TOPIC, at(1), 10, "x")) is None
    cache.put(page_key(TOPIC, at(99), 10, "x"), ANY, page(6000, first=at(5)))
    assert (cache.size, len(cache)) == (0, 0)


def test_expired_and_outgrown_pages_are_not_served() -> None:
    cache = PageCache(5000)
    key = page_key(TOPIC, FIRST, 10, "x")
    cache.put(key, ANY, page(1, first=at(5), end=b"high"))
    assert got(cache, key, oldest_live=at(4), log_end=b"high") is not None
    assert got(cache, key, oldest_live=at(4), log_end=b"higher") is None
    assert got(cache, key, oldest_live=at(5), log_end=b"high") is None


def test_a_decided_page_is_for_readers_of_its_isolation_while_it_lasts() -> None:
    cache = PageCache(5000)
    key = page_key(TOPIC, FIRST, 10, "x")
    lasting = CachedPage(
        body=b"x", next_position=FIRST, count=1, first=at(5), oldest_live=FIRST, end=None, lasts_until_ms=7
    )
    cache.put(key, "read_committed", lasting)
    assert got(cache, key) is None
    assert got(cache, key, isolation=ANY) is None
    assert got(cache, key, isolation="read_committed", now_ms=7) is lasting
    assert got(cache, key, isolation="read_committed", now_ms=8) is None
    cache.put(key, ANY, page(1, first=at(5)))
    assert got(cache, key) is not None
    assert got(cache, key, isolation=ANY) is not None


async def test_a_recreated_topic_is_empty(topics: Topics) -> None:
    await topics.publish("t", "a", "b")
    assert await topics.payloads("t") == await topics.payloads("t") == ["a", "b"]
    assert topics.broker.cache.hits == 1
    await topics.ok("DELETE", "topics/t")
    await topics.create("t")
    assert await topics.payloads("t") == []
    await topics.publish("t", "c")
    assert await topics.payloads("t") == ["c"]


async def test_pages_of_transactions_and_own_ttls_are_kept(topics: Topics) -> None:
    async def hits(*payloads: str, **body: object) -> int:
        before = topics.broker.cache.hits
        for _ in range(3):
            assert await topics.payloads("t", **body) == list(payloads)
        return topics.broker.cache.hits - before

    pointer, snapshot = await topics.start()
    await topics.publish("t", "a", tx=pointer)
    await topics.store("t", "b", "c", tx=pointer)
    await topics.publish("t", tx=pointer)
    await topics.publish("t", "d")
    assert await hits(isolation="read_committed") == 0
    assert await hits("a", "b", "c", "d") == 2
    await topics.finish(pointer, "commit")
    assert await hits("a", "b", "c", "d", isolation="read_committed") == 2
    assert await hits("a", "b", "c", "d", transaction=snapshot) == 0
    await topics.publish("t", {"payload": b64("e"), "ttl": 5})
    for isolation in ("none", "read_committed"):
        assert await hits("a", "b", "c", "d", "e", isolation=isolation) == 2
    topics.clock.forward(5000)
    assert await hits("a", "b", "c", "d", "e") == 3
    topics.clock.forward(1)
    assert await hits("a", "b", "c", "d") == 0
    await topics.broker.cleaner.clean()
    assert await hits("a", "b", "c", "d") == 2


async def test_an_aborted_transaction_with_own_ttls(topics: Topics) -> None:
    """Its page is kept until cleaning may take a message that it passed over."""
    await topics.publish("t", "a")
    pointer, _ = await topics.start()
    await topics.publish("t", {"payload": b64("x"), "ttl": 5}, tx=pointer)
    await topics.finish(pointer, "abort")
    await until(lambda: topics.broker.unmarked == 0)
    first = await topics.poll("t", isolation="read_committed")
    hits = topics.broker.cache.hits
    assert await topics.poll("t", isolation="read_committed") == first
    assert topics.broker.cache.hits == hits + 1
    topics.clock.forward(5001)
    await topics.broker.cleaner.clean()
    after = await topics.poll("t", isolation="read_committed")
    assert (after.payloads, after.next_position) == (["a"], after.ids[0])


async def test_no_cache_at_all() -> None:
    async with serving(cache={"max_bytes": 0}) as topics:
        await topics.create("t")
        await topics.publish("t", "a")
        assert await topics.payloads("t") == await topics.payloads("t") == ["a"]
        assert topics.broker.cache.hits == 0


async def test_a_poll_that_moved_on_leaves_its_page_at_its_new_place(topics: Topics) -> None:
    """It passed an aborted message while it waited, which a reader of everything still sees, whatever was cleaned."""
    pointer, _ = await topics.start()
    await topics.publish("t", {"payload": b64("aborted"), "ttl": 100}, tx=pointer)
    start = topics.clock.now_ms
    asked = {"startFrom": start, "limit": 1, "isolation": "read_committed", "wait_ms": 30_000}
    waiting = asyncio.create_task(topics.poll("t", **asked))
    await until(lambda: topics.broker.notifier.waiting > 0)
    await topics.finish(pointer, "abort")
    await topics.publish("t", "after")
    assert (await waiting).payloads == ["after"]
    assert await topics.payloads("t", startFrom=start, limit=1) == ["aborted"]
    topics.clock.forward(100_001)
    await topics.broker.cleaner.clean()
    assert await topics.payloads("t", startFrom=start, limit=1) == ["after"]


@pytest.mark.parametrize("longer", ["time to live", "clock"])
async def test_what_lives_again_is_shown_again(topics: Topics, longer: str) -> None:
    await topics.configure("t", ttl=10)
    await topics.publish("t", "old")
    topics.clock.forward(8_000)
    await topics.publish("t", "new")
    topics.clock.forward(3_000)
    assert await topics.payloads("t") == await topics.payloads("t") == ["new"]
    if longer == "clock":
        topics.clock.forward(-2_000)
    else:
        await topics.ok("PUT", "topics/t/properties", {"ttl": 1000})
    assert await topics.payloads("t") == ["old", "new"]


STEPS = [
    "publish", "publish", "poll", "poll", "poll", "begin", "inside", "inside", "store", "end", "roll_back", "time",
    "wait", "clean", "ttl",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("seed", dose(range(8), 3))
async def test_the_same_answers_with_and_without(seed: int) -> None:
    """Two services to which the same is done, one of them with a small cache: every poll answers the same."""
    random = Random(seed)
    async with serving(cache={"max_bytes": 4000}) as cached, serving(cache={"max_bytes": 0}) as plain:
        pair = (cached, plain)
        for each in pair:
            await each.create("t", ttl=5)
        begun: list[tuple[int, ...]] = []
        stored: set[tuple[int, ...]] = set()
        details: list[tuple[tuple[int, ...], list[Any]]] = []
        starts: list[str | int | None] = [None, cached.clock.now_ms]
        for number in range(150):
            doing = random.choice(STEPS)
            texts = [f"{number}.{index}" for index in range(random.randint(1, 4))]
            if doing == "publish":
                short = [{"payload": b64(text), "ttl": 1} for text in texts] if random.random() < 0.2 else texts
                for each in pair:
                    await each.publish("t", *short)
            elif doing == "begin":
                begun.append(tuple([(await each.start())[0] for each in pair]))
            elif doing == "inside" and begun and begun[0] not in stored:
                short = [{"payload": b64(text), "ttl": 1} for text in texts] if random.random() < 0.3 else texts
                found_details = [
                    await each.publish("t", *short, tx=pointer) for each, pointer in zip(pair, begun[0], strict=True)
                ]
                details.append((begun[0], found_details))
            elif doing == "store" and begun:
                stored.add(begun[0])
                for each, pointer in zip(pair, begun[0], strict=True):
                    await each.store("t", *texts, tx=pointer)
                    await each.publish("t", tx=pointer)
            elif doing == "roll_back" and details:
                pointers, sent_back = random.choice(details)
                if pointers in begun:
                    for each, detail in zip(pair, sent_back, strict=True):
                        await each.ask("POST", "topics/t/rollback", detail)
            elif doing == "end" and begun:
                how = random.choice(["commit", "abort"])
                for each, pointer in zip(pair, begun.pop(0), strict=True):
                    await each.finish(pointer, how)
            elif doing == "time":
                step = random.choice([1, 700, 3000, -1000])
                for each in pair:
                    each.clock.forward(step)
            elif doing == "wait":
                for pointers in begun:
                    for each, pointer in zip(pair, pointers, strict=True):
                        await each.finish(pointer, "commit")
                begun.clear()
                for each in pair:
                    each.clock.forward(20_000)  # past every start there has been, wherever the clock was set back from
                    await _waited(each, starts[-1])
            elif doing == "clean":
                for each in pair:
                    await each.broker.cleaner.clean()
            elif doing == "ttl":
                seconds = random.choice([2, 5, 1000])
                for each in pair:
                    await each.ok("PUT", "topics/t/properties", {"ttl": seconds})
            asked = {
                "startFrom": random.choice(starts), "inclusive": random.random() < 0.5,
                "limit": random.choice([1, 3, 1000]), "isolation": random.choice(["none", "read_committed"]),
            }  # fmt: skip
            found = [await each.poll("t", **asked) for each in pair]
            assert found[0] == found[1], (number, asked)
            starts.append(found[0].next_position)
        assert cached.broker.cache.hits > 0


async def _waited(topics: Topics, start: str | int | None) -> None:
    """A poll that waits while a transaction comes and is aborted; it answers with what is published after that."""
    asked = {"startFrom": start, "inclusive": False, "limit": 1, "isolation": "read_committed", "wait_ms": 30_000}
    poll = asyncio.create_task(topics.poll("t", **asked))
    await until(lambda: topics.broker.notifier.waiting > 0 or poll.done())
    pointer, _ = await topics.start()
    await topics.publish("t", {"payload": b64("aborted"), "ttl": 2}, tx=pointer)
    await topics.finish(pointer, "abort")
    await topics.publish("t", "behind")
    await poll
