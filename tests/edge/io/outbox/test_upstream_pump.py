"""The pump at work on a real store: outages, nacks, restarts, a full disk, a hub that says nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.edges.upstream import FakeHub, body, running_upstream
from tests.support.spans import place, spans_in_memory

from fairlead_edge.errors import StoreFull
from fairlead_edge.io.outbox import store_clock, upstream_pump
from fairlead_edge.io.outbox.upstream import UpstreamService
from fairlead_wire import message
from fairlead_wire.delivery_policy import DeliveryPolicy
from fairlead_wire.io import logs

AT_ONCE = DeliveryPolicy(retries_with_no_delay=100)


@pytest.fixture
def hub() -> FakeHub:
    return FakeHub()


@pytest.fixture
async def upstream(tmp_path: Path, hub: FakeHub) -> AsyncIterator[UpstreamService]:
    async with running_upstream(tmp_path / "outbox.db", hub, policy=AT_ONCE) as opened:
        yield opened


async def publish(upstream: UpstreamService, count: int, priority: int, **properties: str) -> None:
    each = {"properties": {"priority": str(priority), **properties}}
    refusal = (await upstream.publisher.publish(body(*[each] * count))).refusal
    assert refusal is None


async def settled(hub: FakeHub, upstream: UpstreamService, count: int) -> None:
    await hub.until(lambda: upstream.pump.counters["acked"] == count)


async def test_messages_go_up_as_the_link_wants_them(hub: FakeHub, upstream: UpstreamService) -> None:
    hub.connect()
    await publish(upstream, 3, 5, topic="shop/alarms")
    await settled(hub, upstream, 3)
    assert sorted(hub.stored) == [(1, "iothub_Pri5", sequence) for sequence in range(3)]
    first = hub.stored[1, "iothub_Pri5", 0]
    assert (first.topic, first.priority, first.source) == ("shop/alarms", 5, "/messages/modules/m/outputs/o")
    [queue] = (await upstream.status()).queues
    assert (queue.sent, queue.length, queue.checkpoint) == (3, 0, 2)


async def test_after_an_outage_alarms_leave_before_the_backlog_and_at_once(
    hub: FakeHub, upstream: UpstreamService
) -> None:
    await publish(upstream, 600, 9)
    await publish(upstream, 1, 0)
    hub.connect()
    await settled(hub, upstream, 601)
    assert hub.batches[0][0] == "iothub_Pri0"
    assert {stream for stream, _ in hub.batches[1:]} == {"iothub_Pri9"}


async def test_batch_in_flight_when_the_link_drops_is_sent_again(hub: FakeHub, upstream: UpstreamService) -> None:
    hub.hold.clear()
    hub.connect()
    await publish(upstream, 10, 9)
    await hub.until(lambda: len(hub.batches) == 1)
    hub.cut()
    hub.hold.set()
    await publish(upstream, 1, 0)
    hub.connect()
    await settled(hub, upstream, 11)
    assert [stream for stream, _ in hub.batches] == ["iothub_Pri9", "iothub_Pri0", "iothub_Pri9"]


async def test_restart_sends_what_no_route_names_any_more(
    tmp_path: Path, hub: FakeHub, upstream: UpstreamService
) -> None:
    await publish(upstream, 4, 7)
    async with running_upstream(tmp_path / "outbox.db", hub, epoch=2):
        hub.connect()
        await hub.until(lambda: len(hub.stored) == 4)
        assert {epoch for epoch, _, _ in hub.stored} == {1}


async def test_restored_and_cloned_disks_never_give_a_name_twice(tmp_path: Path, hub: FakeHub) -> None:
    """An older copy of the store sends its messages again under the same names; new ones have new names."""
    folder = tmp_path / "node"
    folder.mkdir()

    async def life(epoch: int, count: int) -> None:
        async with running_upstream(folder / "outbox.db", hub, epoch=epoch) as upstream:
            await publish(upstream, count, 0)
            hub.connect()
            await hub.until(lambda: upstream.pump.counters["acked"] >= 10 + count)
            hub.cut()

    async with running_upstream(folder / "outbox.db", hub) as upstream:
        await publish(upstream, 10, 0)
    shutil.copytree(folder, tmp_path / "copy")
    await life(2, 5)
    assert len(hub.stored) == 15
    for epoch in (3, 4):  # restored twice, or a clone that runs beside it: the same for the topic
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "copy", folder)
        await life(epoch, 5)
    assert len(hub.stored) == 10 + 5 + 5 + 5


async def test_full_disk_delays_the_note_but_not_the_messages(
    hub: FakeHub, upstream: UpstreamService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_pump, "SETTLE_RETRY_SECONDS", 0.001)
    settle, failures = upstream.outbox.settle, [StoreFull("the disk is full")] * 2

    async def fails_twice(*arguments, **named):
        if failures:
            raise failures.pop()
        return await settle(*arguments, **named)

    monkeypatch.setattr(upstream.outbox, "settle", fails_twice)
    hub.connect()
    await publish(upstream, 2, 0)
    await settled(hub, upstream, 2)
    assert not failures and len(hub.batches) == 1


async def test_hub_that_never_answers_is_asked_again(
    hub: FakeHub, upstream: UpstreamService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_pump, "ANSWER_SECONDS", 0.02)
    hub.hold.clear()
    hub.connect()
    await publish(upstream, 1, 0)
    await hub.until(lambda: len(hub.batches) >= 2)
    hub.hold.set()
    await settled(hub, upstream, 1)
    assert upstream.pump.counters["nack_timeout"] >= 1


async def test_an_unexpected_error_of_the_link_costs_a_retry(hub: FakeHub, upstream: UpstreamService) -> None:
    errors = [RuntimeError("never seen before"), ConnectionResetError("peer")]
    send = hub.send_upstream

    async def broken(*args: Any, **more: Any) -> Any:
        if errors:
            raise errors.pop()
        return await send(*args, **more)

    hub.send_upstream = broken  # type: ignore[method-assign]
    hub.connect()
    await publish(upstream, 3, 5)
    await settled(hub, upstream, 3)
    assert upstream.pump.counters["link_errors"] == 2


async def test_a_stalled_queue_is_reported_once_and_again_when_it_moves(
    hub: FakeHub, upstream: UpstreamService, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure("edge")
    monkeypatch.setattr(upstream_pump, "STALLED_SECONDS", 0.05)
    hub.answer = lambda stream, messages: message.Nack(parent_id=1, code="busy", reason="no room", retry_after=0.1)
    hub.connect()
    await publish(upstream, 1, 5)
    await hub.until(lambda: upstream.pump.counters["stalls"] == 1)
    [[stall]] = upstream.pump.stalls().values()
    assert (stall.code, stall.reason) == ("busy", "no room") and stall.for_seconds > 0 and stall.attempts >= 1
    hub.answer = lambda stream, messages: message.Ack(parent_id=1)
    await settled(hub, upstream, 1)
    assert upstream.pump.stalls() == {} and upstream.pump.counters["stalls"] == 1
    events = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert (events.count("queue_stalled"), events.count("queue_moves")) == (1, 1)


@pytest.fixture
def skip(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let so many seconds pass for the store."""
    real, skipped = store_clock.boot_seconds, [0.0]
    monkeypatch.setattr(store_clock, "boot_seconds", lambda: real() + sum(skipped))
    return skipped.append


async def test_messages_that_expire_on_their_way_are_decided_by_the_answer(
    hub: FakeHub, upstream: UpstreamService, skip: Callable[[float], None]
) -> None:
    hub.hold.clear()
    hub.connect()
    await publish(upstream, 100, 5, ttl="600")
    await hub.until(lambda: bool(hub.batches))
    first = len(hub.batches[0][1])
    skip(601)
    await upstream.sweeper.sweep(entire=True)
    [queue] = (await upstream.status()).queues
    assert (queue.length, queue.expired) == (first, 100 - first)
    hub.hold.set()
    await settled(hub, upstream, first)
    [queue] = (await upstream.status()).queues
    assert (queue.sent, queue.expired, queue.length, queue.in_doubt) == (first, 100 - first, 0, 0)
    assert len(hub.stored) == first


async def test_messages_that_expire_after_the_link_broke_are_in_doubt(
    hub: FakeHub, upstream: UpstreamService, skip: Callable[[float], None]
) -> None:
    hub.hold.clear()
    hub.connect()
    await publish(upstream, 10, 5, ttl="600")
    await hub.until(lambda: bool(hub.batches))
    hub.cut()
    skip(601)
    await upstream.sweeper.sweep(entire=True)
    [queue] = (await upstream.status()).queues
    assert (queue.expired, queue.in_doubt) == (10, len(hub.batches[0][1]))


async def test_a_batch_goes_on_in_the_trace_of_its_messages(tmp_path: Path, hub: FakeHub) -> None:
    """Even if it is sent again; a batch without a trace has no header."""
    spans, kept = spans_in_memory()
    async with running_upstream(tmp_path / "outbox.db", hub, policy=AT_ONCE, spans=spans) as upstream:
        hub.answer = lambda stream, messages: message.Nack(parent_id=1, code="busy", reason="later")
        hub.connect()
        await upstream.publisher.publish(body({}), headers={"traceparent": str(place(5))})
        await hub.until(lambda: len(hub.batches) >= 2)
        hub.answer = lambda stream, messages: message.Ack(parent_id=1)
        await settled(hub, upstream, 1)
        await upstream.publisher.publish(body({}))
        await settled(hub, upstream, 2)
    published, *sent = kept.kept
    assert {span.name for span in sent} == {"upstream batch"}
    assert {span.parent for span in sent} == {published.trace}
    assert (sent[0].failure, sent[-1].failure) == ("busy", "")
    assert sent[-1].attributes["messaging.destination.name"] == "default/telemetry"
    assert hub.traceparents == [*(str(span.trace) for span in sent), None]
