"""The publisher: counts, bounds, and a producer that hangs up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

import pytest
from tests.support.edges.upstream import PropertyRouter, body, until
from tests.support.spans import place, spans_in_memory

from fairlead_edge.errors import StoreFull
from fairlead_edge.io.outbox import publisher as publisher_module
from fairlead_edge.io.outbox.publisher import Gathered, MessagePublisher, NotReady
from fairlead_edge.outbox import publishing
from fairlead_edge.outbox.memory_outbox import MemoryOutbox
from fairlead_edge.outbox.queues import QueueId, is_live_lane, live_lane
from fairlead_wire.errors import Temporary
from fairlead_wire.io.spans import Spans


class Bench:
    """A publisher on the in-memory outbox, and the queues that the pump was told of."""

    def __init__(
        self,
        max_bytes: int = 10_000,
        *,
        evict: bool = False,
        spans: Spans | None = None,
        lane: Callable[[QueueId], QueueId] = lambda queue: queue,
    ) -> None:
        self.box = MemoryOutbox(epoch=1, max_bytes=max_bytes)
        self.appended: list[set[QueueId]] = []
        self.swept = 0
        self.sweep: Callable[[], int] = lambda: 0
        numbers = count()
        self.publisher = MessagePublisher(
            self.box,
            clock=lambda: 0.0,
            timestamp=lambda: "2026-11-20T12:00:00.000Z",
            new_id=lambda: f"id-{next(numbers)}",
            make_room=self._make_room,
            appended=self._appended,
            evict=evict,
            spans=spans,
            lane=lane,
        )
        self.publisher.use_router(PropertyRouter())

    async def _make_room(self) -> int:
        self.swept += 1
        return self.sweep()

    def _appended(self, queues: Iterable[QueueId]) -> None:
        self.appended.append(set(queues))


async def test_pump_hears_of_the_queues_after_they_are_durable() -> None:
    bench = Bench()
    await bench.publisher.publish(body({"properties": {"priority": "0"}}, {"properties": {"endpoint": "nowhere"}}))
    assert bench.appended == [{QueueId("iothub", 0)}]
    await bench.publisher.publish(body({"properties": {"endpoint": "nowhere"}}))
    assert len(bench.appended) == 1


async def test_everything_is_counted_once() -> None:
    bench = Bench()
    request = body({}, {"properties": {"endpoint": "nowhere"}}, {"source": "bad"})
    for _ in range(2):
        await bench.publisher.publish(request, "key")
    assert bench.publisher.counters == {
        "received": 3, "accepted": 1, "no_route": 1, "held": 0, "refused_bad_source": 1, "repeated": 3,
    }  # fmt: skip


async def test_full_store_is_swept_once_and_tried_again() -> None:
    bench = Bench(max_bytes=100)
    with pytest.raises(StoreFull):
        await bench.publisher.publish(body({"body": "x" * 200}))
    assert bench.swept == 1

    def grow() -> int:
        bench.box.max_bytes = 10_000
        return 1

    bench.sweep = grow
    stored = await bench.publisher.publish(body({"body": "x" * 200}))
    assert stored.refusal is None and len(json.loads(stored.body)["results"]) == 1


async def test_less_urgent_make_room_only_where_the_operator_says_so() -> None:
    for evict in (False, True):
        bench = Bench(max_bytes=1000, evict=evict)
        await bench.publisher.publish(body({"body": "x" * 500}))
        alarm = body({"body": "y" * 500, "properties": {"priority": "0"}})
        if not evict:
            with pytest.raises(StoreFull):
                await bench.publisher.publish(alarm)
        else:
            await bench.publisher.publish(alarm)
        assert bench.swept == 1
        assert sum(queue.evicted for queue in (await bench.box.status(now=0)).queues) == int(evict)


async def test_requests_in_work_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    monkeypatch.setattr(publisher_module, "PENDING_BYTES_MAX", 10)
    with pytest.raises(Temporary) as refused:
        await bench.publisher.publish(body({}))
    assert refused.value.retry_after_seconds


async def test_producer_that_hangs_up_leaves_its_message_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pump learns what became durable, although the caller no longer waits."""
    bench = Bench()
    go_on = asyncio.Event()
    append = bench.box.append

    async def slow(entries, *, now, idempotency=None, evict=False):
        await go_on.wait()
        return await append(entries, now=now, idempotency=idempotency)

    monkeypatch.setattr(bench.box, "append", slow)
    request = asyncio.create_task(bench.publisher.publish(body({})))
    await asyncio.sleep(0)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    go_on.set()
    await until(lambda: bool(bench.appended))


async def properties(bench: Bench) -> list[dict[str, str]]:
    """Of what is in the store, in order."""
    [queue] = await bench.box.queues()
    items = await bench.box.fetch(queue, after=-1, now=0.0, messages_max=10, bytes_max=1_000_000)
    return [json.loads(item.content)["properties"] for item in items]


async def test_a_sampled_request_is_stored_with_the_span_of_its_publish() -> None:
    spans, kept = spans_in_memory()
    bench = Bench(spans=spans)
    answer = await bench.publisher.publish(body({}, {}), headers={"traceparent": str(place(5))})
    [span] = kept.kept
    assert (span.name, span.kind, span.parent, span.failure) == ("publish", "producer", place(5), "")
    assert span.attributes["messaging.batch.message_count"] == 2
    assert answer.trace == span.trace
    assert await properties(bench) == [{"traceparent": str(span.trace)}] * 2


async def test_without_spans_what_a_producer_says_is_stored_as_it_is() -> None:
    """Without spans a trace is an ordinary application property: nothing is read or added."""
    bench = Bench()
    message = {"traceparent": str(place(5))}
    answer = await bench.publisher.publish(body({"properties": message}), headers={"traceparent": str(place(6))})
    assert answer.trace is None
    assert await properties(bench) == [message]


async def test_nothing_is_added_to_what_is_not_sampled() -> None:
    spans, kept = spans_in_memory()
    bench = Bench(spans=spans)
    await bench.publisher.publish(body({}), headers={"traceparent": str(place(5, sampled=False))})
    await bench.publisher.publish(body({}))
    assert (await properties(bench), kept.kept) == ([{}, {}], [])


async def test_what_is_refused_is_the_spans_failure() -> None:
    spans, kept = spans_in_memory(ratio=1.0)
    bench = Bench(100, spans=spans)
    with pytest.raises(StoreFull):
        await bench.publisher.publish(body({"body": "x" * 200}))
    bench.publisher.use_router(None)
    with pytest.raises(NotReady):
        await bench.publisher.publish(body({}))
    assert len(kept.kept) == 2 and all(span.failure for span in kept.kept)


async def test_a_repeated_request_is_answered_as_before_whatever_its_trace() -> None:
    """The trace is not part of the request that the key identifies."""
    spans, _ = spans_in_memory()
    bench = Bench(spans=spans)
    first = await bench.publisher.publish(body({}), "key", headers={"traceparent": str(place(5))})
    again = await bench.publisher.publish(body({}), "key", headers={"traceparent": str(place(6))})
    assert first.body == again.body and len(await properties(bench)) == 1


def gathered(module: str, *messages: dict[str, Any]) -> Gathered:
    submissions = publishing.parse(body(*messages))
    return Gathered(module, submissions, [None] * len(submissions))


async def test_messages_of_several_authors_go_in_one_step() -> None:
    bench = Bench()
    found = await bench.publisher.store_gathered(
        [gathered("m", {}, {"properties": {"endpoint": "nowhere"}}), gathered("n", {"body": "x" * 300_000}, {})]
    )
    routed = [isinstance(each, publishing.Accepted) and bool(each.deliveries) for each in found]
    assert routed == [True, False, False, True]
    assert isinstance(found[2], publishing.NotAccepted)
    assert len(bench.appended) == 1
    assert bench.publisher.counters["accepted"] == 2
    bench.publisher.use_router(None)
    with pytest.raises(NotReady):
        await bench.publisher.store_gathered([gathered("m", {})])
    bench.publisher.close(Temporary("moving"))
    with pytest.raises(Temporary, match="moving"):
        await bench.publisher.store_gathered([gathered("m", {})])


async def test_gathered_messages_have_a_span_where_one_is_sampled() -> None:
    spans, kept = spans_in_memory()
    bench = Bench(spans=spans)
    await bench.publisher.store_gathered(
        [gathered("m", {"properties": {"traceparent": str(place(5))}}), gathered("n", {})]
    )
    [span] = kept.kept
    assert (span.name, span.parent, span.failure) == ("publish", place(5), "")
    assert (await properties(bench))[0] == {"traceparent": str(span.trace)}
    bench.publisher.use_router(None)
    with pytest.raises(NotReady):
        await bench.publisher.store_gathered([gathered("m", {"properties": {"traceparent": str(place(6))}})])
    assert kept.kept[1].failure


@pytest.mark.parametrize("entrance", ["http", "mqtt"])
async def test_every_entrance_puts_messages_into_the_lane_of_now(entrance: str) -> None:
    bench = Bench(lane=lambda queue: QueueId(queue.endpoint, live_lane(queue.priority)))
    if entrance == "http":
        await bench.publisher.publish(body({}))
    else:
        await bench.publisher.store_gathered([gathered("m", {})])
    [queues] = bench.appended
    assert queues and all(is_live_lane(queue.priority) for queue in queues)
