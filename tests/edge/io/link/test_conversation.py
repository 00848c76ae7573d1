"""One connection with the hub, over a real socket."""

from __future__ import annotations

import asyncio
import io
import json

import pytest
from tests.support.edges.edge_link import BrokenStore, SlowStore, linked, make, running, until
from tests.support.hubs.hub_server import WAIT_SECONDS, HubServer, config_map
from tests.support.spans import place, spans_in_memory

from fairlead_edge.errors import LinkDown, StoreFailed
from fairlead_edge.io.link import conversation
from fairlead_edge.objects.memory_metastore import MemoryMetastore
from fairlead_wire import message
from fairlead_wire.io import logs
from fairlead_wire.link import codec
from fairlead_wire.log_limiter import LogLimiter
from fairlead_wire.objects import digest


async def test_objects_arrive_and_are_acked_and_deleted() -> None:
    store = MemoryMetastore()
    async with HubServer() as hub, running(make(hub.url, store)):
        peer = await hub.open()
        assert (peer.hello.node, peer.hello.store_epoch, peer.hello.held) == ("edge-1", 77, 0)
        await peer.hold(config_map("a"), config_map("b"))
        assert (await store.summary()).held == 2
        answer = await peer.settled(await peer.delete(config_map("a")))
        assert isinstance(answer, message.Ack) and (await store.summary()).held == 1


@pytest.mark.slow
async def test_a_slow_disk_makes_larger_batches_and_no_early_acks() -> None:
    """While one batch is written the others collect; nothing is acked meanwhile."""
    store = SlowStore()
    async with HubServer() as hub, running(make(hub.url, store)) as _:
        peer = await hub.open(keepalive_seconds=1.0)
        ids = [await peer.update(config_map(f"n-{number}")) for number in range(100)]
        header, _ = await peer.receive()
        assert isinstance(header, message.Keepalive)
        await peer.send(message.Keepalive())
        store.gate.set()
        await peer.settled(ids[-1])
        assert sum(store.batches) == 100 and len(store.batches) <= 3


async def test_a_damaged_object_is_nacked_and_the_others_go_on() -> None:
    async with HubServer() as hub, running(make(hub.url, MemoryMetastore())):
        peer = await hub.open()
        bad = await peer.update(config_map("bad"), told_digest="0" * 64)
        good = await peer.update(config_map("good"))
        nack = await peer.settled(bad)
        assert isinstance(nack, message.Nack) and (nack.code, nack.permanent) == ("digest_mismatch", True)
        assert isinstance(await peer.settled(good), message.Ack)


async def test_a_refused_object_is_in_the_log_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    logs.configure("edge", stream=stream)
    monkeypatch.setattr(conversation, "_refusals", LogLimiter(conversation.LOGGED_SECONDS))
    async with HubServer() as hub, running(make(hub.url, MemoryMetastore(bytes_max=10))):
        peer = await hub.open()
        for _ in range(3):
            assert isinstance(await peer.settled(await peer.update(config_map("full"))), message.Nack)
    [line] = [json.loads(line) for line in stream.getvalue().splitlines() if "object_refused" in line]
    assert line["object"].endswith("/configmaps/full") and line["code"] == "store_full" and line["reason"]


async def test_comparing_finds_what_is_held() -> None:
    async with HubServer() as hub, running(make(hub.url, MemoryMetastore())):
        peer = await hub.open()
        await peer.hold(*(config_map(f"n-{number}") for number in range(20)))
        await peer.send(message.Compare(id=900, bits=2))
        buckets, sums = await peer.expect(message.BucketSums)
        assert (buckets.parent_id, len(sums)) == (900, digest.SUM_BYTES << 2)
        await peer.send(message.ListBuckets(id=901, bits=2, buckets=[0, 1, 2, 3]))
        entries, content = await peer.expect(message.Entries)
        assert entries.last and codec.unpack(entries.encoding, content).count(b"api/v1") == 20


async def test_a_batch_being_written_when_the_link_breaks_is_in_the_next_hello() -> None:
    """What was handed to the disk is waited for, so the hello never understates."""
    store = SlowStore()
    async with HubServer() as hub, running(make(hub.url, store)):
        peer = await hub.open()
        await peer.update(config_map("a"))
        await until(lambda: bool(store.batches))
        peer.connection.transport.abort()
        await asyncio.wait_for(peer.connection.wait_closed(), WAIT_SECONDS)
        store.gate.set()
        peer = await hub.open()
        assert peer.hello.held == 1 and store.log.version == 2


@pytest.mark.slow
async def test_keepalives_keep_a_quiet_link() -> None:
    async with linked() as (hub, link):
        peer = await hub.open(keepalive_seconds=1.0)
        for _ in range(2):
            await peer.expect(message.Keepalive)
            await peer.send(message.Keepalive())
        assert hub.connections == 1 and link.state.state == "connected"


@pytest.mark.parametrize("frame", [b"garbage", b"\x01\x00\x00\x00\x02{}", "text", b"x" * (codec.FRAME_BYTES_MAX + 1)])
async def test_garbage_ends_the_session_with_a_reason_and_not_the_agent(frame: bytes | str) -> None:
    async with HubServer() as hub, running(make(hub.url, MemoryMetastore())) as task:
        peer = await hub.open()
        await peer.connection.send(frame)
        await asyncio.wait_for(peer.connection.wait_closed(), WAIT_SECONDS)
        assert peer.connection.close_code in (1002, 1009) and peer.connection.close_reason
        again = await hub.open()
        await again.hold(config_map("a"))
        assert not task.done()


async def test_batches_go_up_and_answers_come_back() -> None:
    async with linked() as (hub, link):
        opened = asyncio.Event()
        link.on_open(opened.set)
        with pytest.raises(LinkDown):
            await link.send_upstream("iothub", "", b"[]")
        peer = await hub.open(upstream_window=2)
        await asyncio.wait_for(opened.wait(), WAIT_SECONDS)
        assert link.upstream_window == 2
        sent = [
            asyncio.create_task(link.send_upstream(f"s{number}", "", b"[]", follows=bool(number)))
            for number in range(2)
        ]
        first, _ = await peer.expect(message.Upstream)
        second, _ = await peer.expect(message.Upstream)
        assert (first.stream, second.stream, first.follows, second.follows) == ("s0", "s1", False, True)
        nack = message.Nack(parent_id=second.id, code="busy", reason="later")
        await peer.send(nack)
        await peer.send(message.Ack(parent_id=first.id))
        assert await asyncio.gather(*sent) == [message.Ack(parent_id=first.id), nack]


async def test_a_batch_without_an_answer_fails_when_the_link_goes_down() -> None:
    """Whether the hub has it is unknown; it is offered again, and known there by its number."""
    async with linked() as (hub, link):
        peer = await hub.open()
        await until(lambda: link.upstream_window > 0)
        sent = asyncio.create_task(link.send_upstream("iothub", "", b"[]"))
        await peer.expect(message.Upstream)
        peer.connection.transport.abort()
        with pytest.raises(LinkDown):
            await asyncio.wait_for(sent, WAIT_SECONDS)
        assert link.upstream_window == 0


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["garbage", "refused", "silent"])
async def test_a_batch_sent_while_the_session_ends_fails_as_one_sent_later(ends: str) -> None:
    """Saying goodbye to a deaf hub takes a second; who sends meanwhile gets an error that can be handled.

    The hub stays connected and deaf, so that the goodbye is waited for.
    """
    async with HubServer() as hub:
        link = make(hub.url, MemoryMetastore())
        async with running(link) as task:
            peer = await hub.open(keepalive_seconds=0.1)
            await until(lambda: link.upstream_window > 0)
            peer.connection.transport.pause_reading()
            if ends == "garbage":
                await peer.connection.send(b"\x07nonsense")
            elif ends == "refused":
                await peer.send(message.Refuse(code="draining", reason="goes", retry_after=0.1))
            conversation = link._conversation
            assert conversation is not None
            await until(lambda: not conversation._core.is_open)
            assert link._conversation is conversation, "the goodbye is under way"
            with pytest.raises(LinkDown):
                await link.send_upstream("iothub", "", b"[]")
            link.report(message.EdgeStatus(held=1))
            assert link.upstream_window == 0
            peer.connection.transport.abort()
            await hub.open()
            assert not task.done()


async def test_a_failed_disk_ends_the_agent_not_only_the_session() -> None:
    """What it says cannot be believed any more; a restart reads what is really there."""
    async with HubServer() as hub, running(make(hub.url, BrokenStore())) as task:
        peer = await hub.open()
        await peer.update(config_map("a"))
        with pytest.raises(StoreFailed):
            await asyncio.wait_for(task, WAIT_SECONDS)


async def test_an_ack_overtakes_batches_that_wait() -> None:
    """On a slow link megabytes of messages wait; the hub's timer for an object must not run out behind them."""
    async with linked() as (hub, link):
        peer = await hub.open(upstream_window=100)
        await until(lambda: link.upstream_window > 0)
        batch = b"x" * 1_000_000
        waiting = [asyncio.create_task(link.send_upstream("iothub", "", batch)) for _ in range(40)]
        await asyncio.sleep(0)  # all of them are offered now, and more than the sockets' buffers hold
        id = await peer.update(config_map("urgent"))
        order: list[str] = []
        while len(order) < 41:
            header, _ = await peer.receive()
            if isinstance(header, message.Ack):
                assert header.parent_id == id
            if isinstance(header, message.Ack | message.Upstream):
                order.append(type(header).__name__)
        assert order.index("Ack") < 35
        for task in waiting:
            task.cancel()


async def test_an_urgent_batch_overtakes_batches_that_wait_to_leave() -> None:
    """Ids rise all the same, for they are given as batches leave; what never left fails with the session."""
    async with linked() as (hub, link):
        peer = await hub.open(upstream_window=100)
        await until(lambda: link.upstream_window > 0)
        batch = b"x" * 1_000_000
        waiting = [asyncio.create_task(link.send_upstream("slow", "", batch, priority=9)) for _ in range(40)]
        await asyncio.sleep(0)  # all of them are offered now, and more than the sockets' buffers hold
        waiting.append(asyncio.create_task(link.send_upstream("alarms", "", b"[]", priority=0)))
        found: list[message.Upstream] = []
        while "alarms" not in [header.stream for header in found]:
            header, _ = await peer.expect(message.Upstream)
            found.append(header)
        assert len(found) < 35
        assert [header.id for header in found] == sorted(header.id for header in found)
        peer.connection.transport.abort()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(error, LinkDown) for error in ended)


async def test_a_traced_change_is_recorded_until_it_is_durable() -> None:
    """What is no trace, or not sampled, has no span; all of it is stored and acknowledged."""
    spans, kept = spans_in_memory()
    async with HubServer() as hub, running(make(hub.url, MemoryMetastore(), spans=spans)):
        peer = await hub.open()
        for name, traceparent in (("a", str(place(1))), ("b", None), ("c", "x"), ("d", str(place(2, sampled=False)))):
            answer = await peer.settled(await peer.update(config_map(name), traceparent=traceparent))
            assert isinstance(answer, message.Ack)
    [span] = kept.kept
    assert (span.name, span.kind, span.parent, span.failure) == ("apply", "server", place(1), "")


async def test_an_agent_that_records_nothing_passes_over_the_header() -> None:
    store = MemoryMetastore()
    async with HubServer() as hub, running(make(hub.url, store)):
        peer = await hub.open()
        answer = await peer.settled(await peer.update(config_map("a"), traceparent=str(place(1))))
        assert isinstance(answer, message.Ack) and (await store.summary()).held == 1
