"""Pushing to a real HTTP endpoint: order, retries, dead letters, restarts."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from tests.support.edges.endpoint import Endpoint, listening
from tests.support.topics.messaging import Topics, b64, serving, until

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.io import committer, push_performer, pusher, quota_keeper
from fairlead_messaging.server.io.rest.http import PUSHER
from fairlead_messaging.server.quotas import MESSAGE_BYTES
from fairlead_messaging.server.store.memory_kv import MemoryKV
from fairlead_messaging.server.store.ordered_kv import Batch
from fairlead_messaging.server.subscriptions import push
from fairlead_messaging.server.subscriptions.changes import PutSubscription
from fairlead_messaging.server.subscriptions.subscription import RETRY_AFTER_SECONDS_MAX, SubscriptionRecord

AT_ONCE = {"retries_with_no_delay": 2, "minimum_delay_retries": 0, "maximum_delay_retries": 0, "backoff_retries": 0}


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with listening() as found:
        yield found


async def subscribe(topics: Topics, url: str, **more: Any) -> None:
    await topics.ok("PUT", "topics/t/subscriptions/s", {"url": url, "delivery": AT_ONCE} | more)


async def shown(topics: Topics) -> dict[str, Any]:
    return dict(await topics.ok("GET", "topics/t/subscriptions/s"))


async def test_messages_come_in_order_with_their_names(endpoint: Endpoint, topics: Topics) -> None:
    await topics.publish("t", "before")
    await subscribe(topics, endpoint.url)
    pointer, _ = await topics.start()
    await topics.publish("t", "hidden", tx=pointer)
    await topics.publish("t", "a", "b")
    await topics.finish(pointer, "abort")
    await until(lambda: len(endpoint.bodies) == 2)
    assert endpoint.bodies == ["a", "b"]
    assert endpoint.headers[0]["Fairlead-Topic"] == "default/t"
    assert endpoint.headers[0]["Fairlead-Subscription"] == "s"
    assert endpoint.headers[0]["Fairlead-Message-Id"] < endpoint.headers[1]["Fairlead-Message-Id"]


async def test_what_never_works_becomes_a_dead_letter(endpoint: Endpoint, topics: Topics) -> None:
    await topics.create("dead")
    await subscribe(topics, endpoint.url, dead_letter_topic="default/dead")
    endpoint.answers = [400, 500, 500, 500]
    await topics.publish("t", "final", "tried", "fine")
    await until(lambda: len(endpoint.bodies) == 5)
    assert endpoint.bodies == ["final", "tried", "tried", "tried", "fine"]
    assert await topics.payloads("dead") == ["final", "tried"]


async def test_letters_that_two_topics_hand_to_each_other_stay_below_the_quota(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each message becomes two, for ever: what has no room waits."""
    monkeypatch.setattr(quota_keeper, "MEASURE_SECONDS", 3600.0)  # once, at the start
    one = 1 + MESSAGE_BYTES
    quota = {"namespace": "default", "stored_bytes": 12 * one}
    async with serving(quotas=[quota]) as topics, listening() as endpoint:
        endpoint.answers = [400] * 1000
        for name, other in (("a", "b"), ("b", "a")):
            await topics.create(name)
            for number in range(2):
                body = {"url": endpoint.url, "dead_letter_topic": f"default/{other}"}
                await topics.ok("PUT", f"topics/{name}/subscriptions/s{number}", body)
        await topics.publish("a", "x")

        async def waiting() -> int:
            shown = [each for name in "ab" for each in await topics.ok("GET", f"topics/{name}/subscriptions")]
            return sum(each["waiting_dead_letters"] for each in shown)

        while not await waiting():
            continue
        assert len(await topics.payloads("a")) + len(await topics.payloads("b")) <= 12
        refused = await topics.ask("POST", "topics/a/publish", {"messages": [b64("more than is left")] * 2})
        assert refused.code == "quota_stored_bytes"


async def test_without_a_dead_letter_topic_it_is_counted(endpoint: Endpoint, topics: Topics) -> None:
    await subscribe(topics, endpoint.url)
    endpoint.answers = [404]
    await topics.publish("t", "a", "b")
    await until(lambda: len(endpoint.bodies) == 2)
    while (state := await shown(topics))["delivered"] < 1:
        continue
    assert (state["dropped"], state["delivered"], state["last_error"]) == (1, 1, "status 404")


@pytest.mark.parametrize(("asked", "seconds"), [("60", 60), ("9" * 400, RETRY_AFTER_SECONDS_MAX)])
async def test_the_endpoints_own_pause_is_honoured_within_reason(
    endpoint: Endpoint, topics: Topics, asked: str, seconds: int
) -> None:
    await subscribe(topics, endpoint.url)
    endpoint.answers = [web.Response(status=503, headers={"Retry-After": asked})]
    await topics.publish("t", "a")
    while not (state := await shown(topics))["attempts"]:
        continue
    assert state["next_attempt_ms"] == topics.clock.now_ms + seconds * 1000
    assert state["last_error"] == "status 503"


async def test_a_restart_goes_on_where_it_stood() -> None:
    kv = MemoryKV()
    async with listening() as endpoint:
        async with serving(kv) as topics:
            await topics.create("t")
            await subscribe(topics, endpoint.url)
            await topics.publish("t", "a")
            while not (await shown(topics))["delivered"]:
                continue
        async with serving(kv) as topics:
            await topics.publish("t", "b")
            await until(lambda: len(endpoint.bodies) == 2)
        assert endpoint.bodies == ["a", "b"]


async def test_a_deleted_subscription_ends(endpoint: Endpoint, topics: Topics) -> None:
    await subscribe(topics, endpoint.url)
    await topics.ok("DELETE", "topics/t/subscriptions/s")
    await topics.publish("t", "a")
    await subscribe(topics, endpoint.url)
    await topics.publish("t", "b")
    await until(lambda: len(endpoint.bodies) == 1)
    assert endpoint.bodies == ["b"]


async def counted(topics: Topics, number: int) -> dict[str, Any]:
    """Its state once so many messages are counted."""
    while True:
        state = await shown(topics)
        if sum(state[each] for each in ("delivered", "dead_lettered", "dropped", "expired")) >= number:
            return state
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("missing", [True, False])
async def test_a_dead_letter_topic_that_takes_nothing_stops_no_delivery(
    topics: Topics, missing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not there, or for transactions alone: the page goes on, the state says why, and the letter is written later."""
    monkeypatch.setattr(push, "LETTER_RETRY_MS", 50)
    async with listening() as endpoint:
        if not missing:
            await topics.create("dead", transactional="required")
        await subscribe(topics, endpoint.url, dead_letter_topic="default/dead")
        endpoint.answers = [400]
        await topics.publish("t", *(f"m{number}" for number in range(100)))
        state = await counted(topics, 99)
        assert (state["delivered"], state["waiting_dead_letters"]) == (99, 1)
        assert state["state"] == "dead_letters_waiting" and "default/dead" in state["reason"]
        if missing:
            await topics.create("dead")
        else:
            await topics.ok("PUT", "topics/dead/properties", {})
        topics.clock.forward(100)
        state = await counted(topics, 100)
        assert (state["dead_lettered"], state["state"], state["reason"]) == (1, "delivering", "")
        assert await topics.payloads("dead") == ["m0"]


@pytest.mark.slow
async def test_a_failed_write_passes_nothing_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "RETRY_AFTER_SECONDS", 0.01)
    kv = _Failing()
    async with listening() as endpoint, serving(kv) as topics:
        await topics.create("t")
        await subscribe(topics, endpoint.url)
        kv.every = 7
        for number in range(100):
            while (await topics.ask("POST", "topics/t/publish", {"messages": [b64(f"m{number}")]})).status != 200:
                continue
        await until(lambda: {f"m{number}" for number in range(100)} <= set(endpoint.bodies))
        kv.every = 0
        state = await shown(topics)
        while state["delivered"] < 100:
            state = await shown(topics)
        assert (state["state"], state["reason"]) == ("delivering", "")


class _Failing(MemoryKV):
    """Every so-many-th write fails before it is done."""

    every = 0
    count = 0

    def apply(self, batch: Batch) -> None:
        self.count += 1
        if self.every and self.count % self.every == 0:
            raise StorageError("no room")
        super().apply(batch)


@pytest.mark.slow
async def test_a_message_whose_time_is_over_is_not_pushed(endpoint: Endpoint, topics: Topics) -> None:
    """Neither by its own ttl nor by the topic's; each is counted, also when cleaning was first."""
    await topics.configure("t", ttl=10)
    await subscribe(topics, endpoint.url, delivery={"minimum_delay": 5, "retries_with_no_delay": 0})
    endpoint.answers = [503]
    await topics.publish("t", "a", {"payload": b64("b"), "ttl": 2})
    await until(lambda: len(endpoint.bodies) == 1)
    topics.clock.forward(2001)
    await topics.broker.cleaner.clean()
    topics.clock.forward(9000)
    await topics.broker.cleaner.clean()
    await topics.publish("t", "c")
    state = await counted(topics, 3)
    assert (endpoint.bodies, state["expired"], state["delivered"]) == (["a", "c"], 2, 1)


async def test_a_recreated_topic_owes_its_predecessors_subscription_nothing(endpoint: Endpoint, topics: Topics) -> None:
    await subscribe(topics, endpoint.url)
    await topics.ok("DELETE", "topics/t")
    await topics.create("t")
    await topics.publish("t", "of the next generation")
    await subscribe(topics, endpoint.url)
    await topics.publish("t", "mine")
    assert (await counted(topics, 1))["delivered"] == 1
    assert endpoint.bodies == ["mine"]


async def test_the_topics_policy_counts_where_a_subscription_has_none(endpoint: Endpoint, topics: Topics) -> None:
    await topics.configure("t", delivery=AT_ONCE)
    await subscribe(topics, endpoint.url, delivery=None)
    endpoint.answers = [500, 500, 500]
    await topics.publish("t", "a", "b")
    assert (await counted(topics, 2))["dropped"] == 1
    assert endpoint.bodies == ["a", "a", "a", "b"]
    state = await shown(topics)
    assert (state["delivery"], state["effectiveDelivery"]["retries_with_no_delay"]) == (None, 2)
    own = {**AT_ONCE, "retries_with_no_delay": 0}
    await subscribe(topics, endpoint.url, delivery=own)
    endpoint.answers = [500]
    await topics.publish("t", "c", "d")
    assert (await counted(topics, 4))["dropped"] == 2
    assert endpoint.bodies[4:] == ["c", "d"]
    state = await shown(topics)
    assert (state["delivery"], state["effectiveDelivery"]["retries_with_no_delay"]) == (own, 0)


async def test_a_changed_policy_of_the_topic_counts_at_once(topics: Topics) -> None:
    """Also for a message that waits an hour for its next attempt under the policy before; its attempts begin anew."""
    patient = {"retries_with_no_delay": 0, "minimum_delay_retries": 9, "minimum_delay": 3600, "maximum_delay": 3600}
    async with listening() as endpoint:
        await topics.configure("t", delivery=patient)
        await subscribe(topics, endpoint.url, delivery=None)
        endpoint.answers = [500, 500]
        await topics.publish("t", "a")
        while not (state := await shown(topics))["attempts"]:
            continue
        assert state["next_attempt_ms"] == topics.clock.now_ms + 3_600_000
        await topics.ok("PUT", "topics/t/properties", {"delivery": AT_ONCE})
        assert (await counted(topics, 1))["delivered"] == 1
        assert endpoint.bodies == ["a", "a", "a"]
        assert (await topics.properties("t"))["delivery"] == AT_ONCE


async def test_a_changed_policy_is_no_matter_for_an_own_one(topics: Topics) -> None:
    patient = {"retries_with_no_delay": 0, "minimum_delay_retries": 9, "minimum_delay": 3600, "maximum_delay": 3600}
    async with listening() as endpoint:
        await subscribe(topics, endpoint.url, delivery=patient)
        endpoint.answers = [500]
        await topics.publish("t", "a")
        while not (await shown(topics))["attempts"]:
            continue
        before = topics.app[PUSHER].running
        await topics.ok("PUT", "topics/t/properties", {"delivery": AT_ONCE})
        state = await shown(topics)
        assert (state["attempts"], endpoint.bodies, before) == (1, ["a"], 1)


async def test_a_subscription_without_a_task_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request cut short between the write and the start leaves it on disk alone."""
    monkeypatch.setattr(pusher, "CHECK_SECONDS", 0.05)
    async with serving() as topics, listening() as endpoint:
        await topics.create("t")
        record = SubscriptionRecord(url=endpoint.url, revision="1")
        await topics.broker.change(PutSubscription(namespace="default", name="t", subscription="s", record=record))
        await topics.publish("t", "a")
        await until(lambda: endpoint.bodies == ["a"])


@pytest.mark.slow
async def test_endpoints_that_never_answer_keep_no_other_out(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_performer, "REQUEST_TIMEOUT_SECONDS", 3600.0)
    async with silent() as url, listening() as endpoint:
        for number in range(150):
            await topics.ok("PUT", f"topics/t/subscriptions/s{number}", {"url": url})
        await topics.publish("t", "a")
        await subscribe(topics, endpoint.url)
        await topics.publish("t", "b")
        async with asyncio.timeout(100):
            await until(lambda: endpoint.bodies == ["b"])


@contextlib.asynccontextmanager
async def silent() -> AsyncIterator[str]:
    """An endpoint that takes connections and says nothing."""
    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0, backlog=1024)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()


async def test_name_servers_that_do_not_answer_hold_up_nothing_else(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither other subscriptions nor what needs a thread for something else."""
    answering, asked = threading.Event(), threading.Semaphore(0)
    real = socket.getaddrinfo

    def lookup(host: str, *more: Any, **named: Any) -> Any:
        if host.endswith(".dead.test"):
            asked.release()
            answering.wait(60)
            raise socket.gaierror("no answer")
        return real(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    try:
        async with listening() as endpoint:
            for number in range(12):
                url = f"http://a{number}.dead.test/"
                await topics.ok("PUT", f"topics/t/subscriptions/s{number}", {"url": url})
            await topics.publish("t", "a")
            for _ in range(12):
                assert await asyncio.to_thread(asked.acquire, timeout=100)
            await subscribe(topics, endpoint.url.replace("127.0.0.1", "localhost"))
            await topics.publish("t", "b")
            await until(lambda: endpoint.bodies == ["b"])
            assert await asyncio.to_thread(lambda: "a thread") == "a thread"
    finally:
        answering.set()
