"""Publish, store, rollback and poll over HTTP, by the seed's scenarios."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.support.spans import place, spans_in_memory
from tests.support.topics.messaging import Topics, b64, serving, until

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.io.stores.rocksdb_kv import RocksKV
from fairlead_messaging.server.store.memory_kv import MemoryKV
from fairlead_messaging.server.store.ordered_kv import Batch


async def test_start_from_a_message_id(topics: Topics) -> None:
    for payload in ("m0", "m1", "m2"):
        await topics.publish("t", payload)
    ids = (await topics.poll("t")).ids
    assert await topics.payloads("t", startFrom=ids[1]) == ["m1", "m2"]
    assert await topics.payloads("t", startFrom=ids[1], inclusive=False) == ["m2"]
    assert await topics.payloads("t", startFrom=ids[2], inclusive=False) == []
    assert await topics.payloads("t", inclusive=False) == ["m0", "m1", "m2"]


@pytest.mark.verify
@pytest.mark.parametrize("form", ["json", "avro/binary"])
async def test_as_many_messages_as_fit_the_body(topics: Topics, form: str) -> None:
    await topics.create("other")
    count = 200_000
    if form == "json":
        raw, headers = b'{"messages": [' + b",".join([b'"eA=="'] * count) + b"]}", {"Content-Type": "application/json"}
    else:
        # Null pointer; one block: the count (zigzag, as a varint), then each message's length and byte.
        raw, headers = b"\x02\x80\xb5\x18" + b"\x02x" * count + b"\x00", {"Content-Type": form}
    publish = asyncio.create_task(topics.ask("POST", "topics/t/publish", raw, headers=headers))
    answered = 0
    while not publish.done():
        await topics.poll("other")
        answered += 1
    assert (await publish).status == 200
    assert answered > 1
    assert len((await topics.poll("t", limit=10**6)).ids) == 100_000  # the most a page has


async def test_more_than_there_is_memory_for_is_refused_with_the_remedy() -> None:
    async with serving(body_bytes_max=100_000, bodies_bytes_max=300_000) as topics:
        await topics.create("t")
        refused = await topics.ask("POST", "topics/t/publish", {"messages": [""] * 2000})
        assert (refused.status, refused.code) == (413, "too_many_messages")
        assert "several requests" in refused.body["error"]["message"]
        await topics.publish("t", *[""] * 1000)
        assert topics.broker.bodies.in_use == 0


async def test_start_from_a_time(topics: Topics) -> None:
    await topics.publish("t", "m0", "m1")
    at = topics.clock.now_ms
    topics.clock.forward(5)
    await topics.publish("t", "m2")
    assert await topics.payloads("t", startFrom=at, limit=2) == ["m0", "m1"]
    assert await topics.payloads("t", startFrom=at + 1) == ["m2"]
    assert await topics.payloads("t", startFrom=at, inclusive=False) == ["m2"]
    assert await topics.payloads("t", startFrom=at + 3_600_000) == []
    assert await topics.payloads("t", startFrom=2**63 - 1, inclusive=False) == []


async def test_topic_ttl_at_read(topics: Topics) -> None:
    await topics.configure("t", ttl=100)
    await topics.publish("t", "m")
    topics.clock.forward(2000)
    assert await topics.payloads("t") == ["m"]
    await topics.ok("PUT", "topics/t/properties", {"ttl": 1})
    assert await topics.payloads("t") == []


async def test_message_ttl(topics: Topics) -> None:
    await topics.configure("t", ttl=100)
    await topics.publish("t", {"payload": b64("a"), "ttl": 1}, "b", {"payload": b64("c"), "ttl": 1000})
    assert await topics.payloads("t") == ["a", "b", "c"]
    topics.clock.forward(2000)
    assert await topics.payloads("t") == ["b", "c"]
    topics.clock.forward(100_000)
    assert await topics.payloads("t") == []


async def test_the_service_limits_a_page() -> None:
    async with serving(poll_limit_max=100) as topics:
        await topics.create("t")
        await topics.publish("t", *(str(n) for n in range(250)))
        first = await topics.poll("t")
        second = await topics.poll("t", startFrom=first.ids[-1], inclusive=False, limit=1000)
        third = await topics.poll("t", startFrom=second.next_position, inclusive=False)
        assert [len(page.ids) for page in (first, second, third)] == [100, 100, 50]
        assert first.payloads + second.payloads + third.payloads == [str(n) for n in range(250)]


async def test_a_page_is_bounded_in_bytes() -> None:
    async with serving(poll_bytes_max=10) as topics:
        await topics.create("t")
        await topics.publish("t", "x" * 50, "y" * 4, "z" * 7, "w")
        sizes = []
        position = None
        while page := await topics.poll("t", startFrom=position, inclusive=False):
            sizes.append([len(each) for each in page.payloads])
            position = page.next_position
        assert sizes == [[50], [4, 7], [1]]


async def test_an_empty_page_still_names_the_next_position(topics: Topics) -> None:
    """A reader can always go on from it, also on a topic that never had a message."""
    page = await topics.poll("t")
    assert page.ids == []
    await topics.publish("t", {"payload": b64("a"), "ttl": 1})
    topics.clock.forward(5000)
    moved = await topics.poll("t", startFrom=page.next_position, inclusive=False)
    assert moved.ids == []
    assert moved.next_position > page.next_position
    await topics.publish("t", "b")
    assert await topics.payloads("t", startFrom=moved.next_position, inclusive=False) == ["b"]


async def test_too_large_a_body_is_413() -> None:
    async with serving(body_bytes_max=1000) as topics:
        await topics.create("t")
        answer = await topics.ask("POST", "topics/t/publish", {"messages": ["YWFh" * 1000]})
        assert (answer.status, answer.code) == (413, "body_too_large")
        await topics.publish("t", "a")


async def test_a_plain_publish_answers_with_an_empty_body(topics: Topics) -> None:
    assert await topics.publish("t", "", "a") == b""
    assert await topics.payloads("t") == ["", "a"]


class FailingOnce(MemoryKV):
    """A store whose next write fails when the test says so."""

    failing = False

    def apply(self, batch: Batch) -> None:
        if self.failing:
            self.failing = False
            raise StorageError("the disk said no")
        super().apply(batch)


async def test_readiness_follows_the_store() -> None:
    kv = FailingOnce()
    async with serving(kv) as topics:
        await topics.create("t")
        kv.failing = True
        assert (await topics.ask("POST", "topics/t/publish", {"messages": [b64("a")]})).status == 503
        kv.failing = True
        assert (await topics.ask("GET", "/readyz")).status == 503
        assert (await topics.ask("GET", "/readyz")).status == 200


async def test_a_long_poll_wakes_when_something_comes(topics: Topics) -> None:
    waiting = asyncio.create_task(topics.poll("t", wait_ms=30_000))
    await until(lambda: topics.broker.notifier.waiting == 1)
    await topics.publish("t", "a")
    assert (await waiting).payloads == ["a"]


async def test_a_long_poll_gives_up_in_time(topics: Topics) -> None:
    assert await topics.payloads("t", wait_ms=20) == []


async def test_abandoned_long_polls_are_let_go(topics: Topics) -> None:
    polls = [asyncio.create_task(topics.poll("t", wait_ms=30_000)) for _ in range(20)]
    await until(lambda: topics.broker.notifier.waiting == 20)
    for each in polls:
        each.cancel()
    await asyncio.gather(*polls, return_exceptions=True)
    await until(lambda: topics.broker.notifier.waiting == 0)
    await topics.publish("t", "a")


async def test_clients_that_hang_up_in_the_middle_of_an_answer(tmp_path: Path) -> None:
    """Half-read pages leave no snapshot and no descriptor behind, and the service goes on."""
    kv = RocksKV(tmp_path)
    async with serving(kv) as topics:
        await topics.create("t")
        for _ in range(10):
            await topics.publish("t", *["x" * 1000] * 500)
        descriptors = len(os.listdir("/proc/self/fd"))
        head = "POST /v1/namespaces/default/topics/t/poll HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
        for _ in range(100):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(topics.url.rsplit(":", 1)[1]))
            writer.write(head.encode())
            await reader.read(1000)
            writer.close()
        assert (await topics.poll("t", limit=1)).ids
        await until(lambda: len(os.listdir("/proc/self/fd")) <= descriptors + 10)
    kv.close()


async def test_a_producer_may_repeat_itself(topics: Topics) -> None:
    async def publish(payloads: list[str], **producer: object) -> dict[str, list[int]]:
        answer = await topics.publish("t", *payloads, producer={"id": "p", "epoch": 5, **producer})
        return dict(answer["producer"])

    assert await publish(["a", "b"], sequence=0) == {"stored": [0, 1], "known": []}
    assert await publish(["a", "b"], sequence=0) == {"stored": [], "known": [0, 1]}
    assert await publish(["b", "c"], sequence=1) == {"stored": [2], "known": [1]}
    assert await publish(["f", "d"], sequences=[5, 3]) == {"stored": [5, 3], "known": []}
    assert await publish(["e"], sequence=4) == {"stored": [4], "known": []}
    assert await publish(["x", "x"], sequences=[9, 9]) == {"stored": [9], "known": [9]}
    assert await topics.payloads("t") == ["a", "b", "c", "f", "d", "e", "x"]


async def test_older_epochs_are_welcome_unless_fenced(topics: Topics) -> None:
    """A restarted producer's backlog still counts; ``fence`` shuts older ones out."""

    async def publish(epoch: int, sequence: int, *, fence: bool = False) -> int:
        producer = {"id": "p", "epoch": epoch, "sequence": sequence, "fence": fence}
        body = {"messages": [b64(f"{epoch}.{sequence}")], "producer": producer}
        return (await topics.ask("POST", "topics/t/publish", body)).status

    assert [await publish(2, 0), await publish(1, 0), await publish(2, 1)] == [200, 200, 200]
    assert [await publish(3, 0, fence=True), await publish(2, 2), await publish(3, 1)] == [200, 409, 200]
    assert await publish(2, 3, fence=True) == 409
    assert await topics.payloads("t") == ["2.0", "1.0", "2.1", "3.0", "3.1"]


async def test_a_publish_is_recorded_in_the_trace_of_its_header() -> None:
    """Until it is durable; a refusal is the span's failure, and a message that is not sampled has no span."""
    spans, kept = spans_in_memory()
    async with serving(spans=spans) as topics:
        await topics.create("t", transactional="required")
        await topics.create("u")
        headers = {"traceparent": str(place(5))}
        body = {"messages": [b64("a"), b64("b")]}
        assert (await topics.ask("POST", "topics/u/publish", body, headers=headers)).status == 200
        assert (await topics.ask("POST", "topics/t/publish", body, headers=headers)).status == 400
        assert (await topics.ask("POST", "topics/u/publish", body)).status == 200
        assert (await topics.ask("POST", "topics/u/publish", body, headers={"traceparent": "x"})).status == 200
    first, second = kept.kept
    assert (first.name, first.kind, first.parent, first.failure) == ("store", "server", place(5), "")
    assert first.attributes["messaging.destination.name"] == "default/u"
    assert first.attributes["messaging.batch.message_count"] == 2
    assert second.failure
