"""Publish, store, rollback and poll over HTTP, by the seed's scenarios."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.support.spans import place, spans_in_memory
from tests.support.topics.messaging import Clock, Topics, b64, serving, until

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.io.stores.rocksdb_kv import RocksKV
from fairlead_messaging.server.store.memory_kv import MemoryKV
from fairlead_messaging.server.store.ordered_kv import Batch


async def test_start_from_a_message_id(topics: Topics) -> None:
    """Inclusive and exclusive, in the middle and at the end."""
    await topics.create("t")
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
    """Only bytes count, and others are answered meanwhile."""
    await topics.create("t")
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
    """413 at once, not 503 for ever; what was counted is given back."""
    async with serving(body_bytes_max=100_000, bodies_bytes_max=300_000) as topics:
        await topics.create("t")
        refused = await topics.ask("POST", "topics/t/publish", {"messages": [""] * 2000})
        assert (refused.status, refused.code) == (413, "too_many_messages")
        assert "several requests" in refused.body["error"]["message"]
        await topics.publish("t", *[""] * 1000)
        assert topics.broker.bodies.in_use == 0


async def test_start_from_a_time(topics: Topics) -> None:
    """Messages of that millisecond are in, unless the start is exclusive."""
    await topics.create("t")
    await topics.publish("t", "m0", "m1")
    at = topics.clock.now_ms
    topics.clock.forward(5)
    await topics.publish("t", "m2")
    assert await topics.payloads("t", startFrom=at, limit=2) == ["m0", "m1"]
    assert await topics.payloads("t", startFrom=at + 1) == ["m2"]
    assert await topics.payloads("t", startFrom=at, inclusive=False) == ["m2"]
    assert await topics.payloads("t", startFrom=at + 3_600_000) == []


async def test_a_recreated_topic_is_empty(topics: Topics) -> None:
    """Messages of the older generation are unreachable at once."""
    await topics.create("t")
    await topics.publish("t", "m0", "m1")
    await topics.ok("DELETE", "topics/t")
    await topics.create("t")
    assert await topics.payloads("t") == []
    await topics.publish("t", "m2", "m3")
    assert await topics.payloads("t") == ["m2", "m3"]


async def test_the_clock_goes_back_across_a_restart() -> None:
    """A later message sorts after an earlier one whatever the clock says."""
    kv, clock = MemoryKV(), Clock()
    async with serving(kv, clock) as topics:
        await topics.create("t")
        await topics.publish("t", "m0")
        first = (await topics.poll("t")).ids[0]
    clock.forward(-100)
    async with serving(kv, clock) as topics:
        await topics.publish("t", "m1")
        page = await topics.poll("t", startFrom=first, inclusive=False)
        assert page.payloads == ["m1"]
        assert page.ids[0] > first


async def test_a_restart_inside_one_millisecond() -> None:
    """Nothing is overwritten, also when the newest rows were removed meanwhile."""
    kv, clock = MemoryKV(), Clock()
    for payload in ("m0", "m1"):
        async with serving(kv, clock) as topics:
            await topics.ask("PUT", "topics/t")
            await topics.publish("t", payload)
    async with serving(kv, clock) as topics:
        assert await topics.payloads("t") == ["m0", "m1"]


async def test_more_messages_in_a_millisecond_than_sequences(topics: Topics) -> None:
    """The 65537th goes on in the next millisecond; order holds."""
    await topics.create("t")
    for _ in range(3):
        await topics.publish("t", *["x"] * 30_000)
    ids: list[str] = []
    position = None
    while page := await topics.poll("t", startFrom=position, inclusive=False, limit=20_000):
        ids += page.ids
        position = page.next_position
    assert len(ids) == 90_000
    assert ids == sorted(set(ids))


async def test_topic_ttl_at_read(topics: Topics) -> None:
    """Gone the moment it has expired, and when the ttl is lowered."""
    await topics.create("t", ttl=100)
    await topics.publish("t", "m")
    topics.clock.forward(2000)
    assert await topics.payloads("t") == ["m"]
    await topics.ok("PUT", "topics/t/properties", {"ttl": 1})
    assert await topics.payloads("t") == []


async def test_message_ttl(topics: Topics) -> None:
    """The smaller of the topic's and the message's own; the others keep their place."""
    await topics.create("t", ttl=100)
    await topics.publish("t", {"payload": b64("a"), "ttl": 1}, "b", {"payload": b64("c"), "ttl": 1000})
    assert await topics.payloads("t") == ["a", "b", "c"]
    topics.clock.forward(2000)
    assert await topics.payloads("t") == ["b", "c"]
    topics.clock.forward(100_000)
    assert await topics.payloads("t") == []


@pytest.mark.parametrize("ttl", [0, -1, "x", 1.5, 2147483648])
async def test_a_bad_message_ttl_is_refused(topics: Topics, ttl: object) -> None:
    """400, and nothing of the request is stored."""
    await topics.create("t")
    body = {"messages": [b64("a"), {"payload": b64("b"), "ttl": ttl}]}
    assert (await topics.ask("POST", "topics/t/publish", body)).status == 400
    assert await topics.payloads("t") == []


async def test_the_service_limits_a_page() -> None:
    """100, 100, then the remaining 50, whatever limit was asked for."""
    async with serving(poll_limit_max=100) as topics:
        await topics.create("t")
        await topics.publish("t", *(str(n) for n in range(250)))
        first = await topics.poll("t")
        second = await topics.poll("t", startFrom=first.ids[-1], inclusive=False, limit=1000)
        third = await topics.poll("t", startFrom=second.next_position, inclusive=False)
        assert [len(page.ids) for page in (first, second, third)] == [100, 100, 50]
        assert first.payloads + second.payloads + third.payloads == [str(n) for n in range(250)]


async def test_a_page_is_bounded_in_bytes() -> None:
    """At least one message, then the page ends at the byte limit; the next position goes on there."""
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
    await topics.create("t")
    page = await topics.poll("t")
    assert page.ids == []
    await topics.publish("t", {"payload": b64("a"), "ttl": 1})
    topics.clock.forward(5000)
    moved = await topics.poll("t", startFrom=page.next_position, inclusive=False)
    assert moved.ids == []
    assert moved.next_position > page.next_position
    await topics.publish("t", "b")
    assert await topics.payloads("t", startFrom=moved.next_position, inclusive=False) == ["b"]


@pytest.mark.parametrize(
    "body",
    [
        {"limit": 0}, {"limit": -1}, {"limit": "a"}, {"limit": 2**40}, {"startFrom": -1}, {"startFrom": 1.5},
        {"startFrom": "00" * 19}, {"startFrom": "00" * 21}, {"startFrom": "zz" * 20}, {"startFrom": "0 " * 20},
        {"startFrom": ""}, {"startFrom": 2**70}, {"inclusive": "yes"}, {"isolation": "some"}, {"wait_ms": -1},
        {"transaction": "!!"}, {"transaction": b64("nonsense")}, {"transaction": ""}, {"surprise": 1}, [], 3, "x",
    ],
)  # fmt: skip
async def test_a_bad_poll_is_refused(topics: Topics, body: object) -> None:
    """400 with the reason, never 500."""
    await topics.create("t")
    await topics.publish("t", "a")
    await topics.payloads("t")  # so that the page is cached
    assert (await topics.ask("POST", "topics/t/poll", body)).status == 400


@pytest.mark.parametrize(
    "body",
    [
        {"messages": ["not base64"]}, {"messages": [1]}, {"messages": "YQ=="}, {"messages": [{"ttl": 1}]},
        {"messages": []}, {}, {"messages": [], "transactionWritePointer": None}, {"messages": ["YQ=="], "more": 1},
        {"messages": ["YQ=="], "transactionWritePointer": "1"}, [], None, 1,
    ],
)  # fmt: skip
async def test_a_bad_publish_is_refused(topics: Topics, body: object) -> None:
    """400 with the reason, and nothing is stored."""
    await topics.create("t")
    answer = await topics.ask("POST", "topics/t/publish", body if body is not None else b"", headers=JSON)
    assert answer.status == 400, answer
    assert await topics.payloads("t") == []


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("verb", ["publish", "store", "poll"])
async def test_other_content_types_are_refused(topics: Topics, verb: str) -> None:
    """400 for text/plain."""
    await topics.create("t")
    answer = await topics.ask("POST", f"topics/t/{verb}", b"{}", headers={"Content-Type": "text/plain"})
    assert (answer.status, answer.code) == (400, "bad_content_type")


@pytest.mark.parametrize("verb", ["publish", "store", "rollback", "poll", "plan"])
async def test_a_missing_topic_is_404(topics: Topics, verb: str) -> None:
    """Whatever is asked of it."""
    body = {"transactionWritePointer": 1, "messages": ["YQ=="]} if verb in ("publish", "store") else {}
    assert (await topics.ask("POST", f"topics/nothing/{verb}", body)).status == 404


async def test_too_large_a_body_is_413() -> None:
    """Refused before it is parsed; the service goes on."""
    async with serving(body_bytes_max=1000) as topics:
        await topics.create("t")
        answer = await topics.ask("POST", "topics/t/publish", {"messages": ["YWFh" * 1000]})
        assert (answer.status, answer.code) == (413, "body_too_large")
        await topics.publish("t", "a")


async def test_an_empty_payload_is_a_message(topics: Topics) -> None:
    """Nothing is something."""
    await topics.create("t")
    await topics.publish("t", "", "a")
    assert await topics.payloads("t") == ["", "a"]


async def test_a_plain_publish_answers_with_an_empty_body(topics: Topics) -> None:
    """As in the seed."""
    await topics.create("t")
    assert await topics.publish("t", "a") == b""


async def test_many_writers_share_their_writes() -> None:
    """Requests stay contiguous, ids increase, and far fewer writes than requests are made."""
    async with serving() as topics:
        await topics.create("t")
        before = topics.broker.committer.batches

        async def write(writer: int) -> None:
            for request in range(5):
                await topics.publish("t", *(f"{writer}.{request}.{n}" for n in range(20)))

        await asyncio.gather(*(write(writer) for writer in range(20)))
        page = await topics.poll("t")
        assert len(page.ids) == 2000
        assert page.ids == sorted(set(page.ids))
        for start in range(0, 2000, 20):
            name = page.payloads[start].rsplit(".", 1)[0]
            assert page.payloads[start : start + 20] == [f"{name}.{n}" for n in range(20)]
        assert topics.broker.committer.batches - before < 100


class FailingOnce(MemoryKV):
    """A store whose next write fails when the test says so."""

    failing = False

    def apply(self, batch: Batch) -> None:
        if self.failing:
            self.failing = False
            raise StorageError("the disk said no")
        super().apply(batch)


async def test_a_storage_failure_reaches_every_request_of_the_batch() -> None:
    """All get 503 with Retry-After, none of the messages is visible, a retry of each is stored once."""
    kv = FailingOnce()
    async with serving(kv) as topics:
        await topics.create("t")
        await topics.publish("t", "before")

        async def publish(name: str) -> int:
            body = {"messages": [b64(name)], "producer": {"id": name, "epoch": 1, "sequence": 0}}
            answer = await topics.ask("POST", "topics/t/publish", body)
            assert answer.status == 200 or answer.headers["Retry-After"] == "1"
            return answer.status

        kv.failing = True
        # The first write is on its way when the others arrive: each that shares it fails with it.
        statuses = await asyncio.gather(*(publish(name) for name in ("a", "b", "c")))
        assert 503 in statuses
        stored = [name for name, status in zip("abc", statuses, strict=True) if status == 200]
        assert await topics.payloads("t") == ["before", *stored]
        assert await asyncio.gather(*(publish(name) for name in "abc")) == [200, 200, 200]
        assert sorted(await topics.payloads("t")) == ["a", "b", "before", "c"]


async def test_readiness_follows_the_store() -> None:
    """Not ready while writes fail, and ready again without anybody having to publish."""
    kv = FailingOnce()
    async with serving(kv) as topics:
        await topics.create("t")
        kv.failing = True
        assert (await topics.ask("POST", "topics/t/publish", {"messages": [b64("a")]})).status == 503
        kv.failing = True
        assert (await topics.ask("GET", "/readyz")).status == 503
        assert (await topics.ask("GET", "/readyz")).status == 200


async def test_a_long_poll_wakes_when_something_comes(topics: Topics) -> None:
    """The reader asked first and gets the message when it is there."""
    await topics.create("t")
    waiting = asyncio.create_task(topics.poll("t", wait_ms=30_000))
    await until(lambda: topics.broker.notifier.waiting == 1)
    await topics.publish("t", "a")
    assert (await waiting).payloads == ["a"]


async def test_a_long_poll_gives_up_in_time(topics: Topics) -> None:
    """An empty page after the wait."""
    await topics.create("t")
    assert await topics.payloads("t", wait_ms=20) == []


async def test_abandoned_long_polls_are_let_go(topics: Topics) -> None:
    """Clients that hang up leave no poll waiting."""
    await topics.create("t")
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
    """What is known is skipped, the rest stored, and the answer says which."""
    await topics.create("t")

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


async def test_a_producer_is_known_after_a_restart() -> None:
    """The intervals were in the same batch as the messages."""
    kv = MemoryKV()
    producer = {"id": "p", "epoch": 1, "sequence": 7}
    async with serving(kv) as topics:
        await topics.create("t")
        await topics.publish("t", "a", producer=producer)
    async with serving(kv) as topics:
        answer = await topics.publish("t", "a", producer=producer)
        assert answer == {"producer": {"stored": [], "known": [7]}}
        assert await topics.payloads("t") == ["a"]


async def test_older_epochs_are_welcome_unless_fenced(topics: Topics) -> None:
    """A restarted producer's backlog still counts; ``fence`` shuts older ones out."""
    await topics.create("t")

    async def publish(epoch: int, sequence: int, *, fence: bool = False) -> int:
        producer = {"id": "p", "epoch": epoch, "sequence": sequence, "fence": fence}
        body = {"messages": [b64(f"{epoch}.{sequence}")], "producer": producer}
        return (await topics.ask("POST", "topics/t/publish", body)).status

    assert [await publish(2, 0), await publish(1, 0), await publish(2, 1)] == [200, 200, 200]
    assert [await publish(3, 0, fence=True), await publish(2, 2), await publish(3, 1)] == [200, 409, 200]
    assert await publish(2, 3, fence=True) == 409
    assert await topics.payloads("t") == ["2.0", "1.0", "2.1", "3.0", "3.1"]


@pytest.mark.parametrize(
    "producer",
    [
        {"id": "p", "epoch": 1}, {"id": "p", "epoch": 1, "sequence": 0, "sequences": [0]}, {"epoch": 1, "sequence": 0},
        {"id": "", "epoch": 1, "sequence": 0}, {"id": "p", "epoch": -1, "sequence": 0}, {"id": "p", "sequence": 0},
        {"id": "p", "epoch": 1, "sequence": -1}, {"id": "p", "epoch": 1, "sequences": [0, 1]},
        {"id": "p", "epoch": 1, "sequence": 2**63}, {"id": "x" * 600, "epoch": 1, "sequence": 0}, "p", 1,
    ],
)  # fmt: skip
async def test_a_bad_producer_is_refused(topics: Topics, producer: object) -> None:
    """400 with the reason, and nothing is stored."""
    await topics.create("t")
    answer = await topics.ask("POST", "topics/t/publish", {"messages": [b64("a")], "producer": producer})
    assert answer.status == 400, answer
    assert await topics.payloads("t") == []


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


# --- Looking into a topic over HTTP.


async def test_each_row_with_its_state_and_nothing_consumed(topics: Topics) -> None:
    """In pages, from any id on; what is asked for is checked."""
    await topics.create("t")
    await topics.publish("t", "a")
    pointer, _ = await topics.start()
    await topics.publish("t", "b", tx=pointer)
    rows = await topics.ok("GET", "topics/t/inspect")
    assert [(each["state"], each["transaction"]) for each in rows] == [("visible", None), ("undecided", pointer)]
    assert await topics.ok("GET", f"topics/t/inspect?after={rows[0]['id']}&limit=5") == rows[1:]
    assert (await topics.ask("GET", "topics/t/inspect?limit=0")).code == "bad_limit"
    assert (await topics.ask("GET", "topics/t/inspect?after=zz")).code == "bad_message_id"
    assert (await topics.ask("GET", "topics/absent/inspect")).code == "topic_not_found"
    assert await topics.payloads("t") == ["a", "b"]
