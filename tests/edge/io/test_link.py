"""The connection to the hub, over real sockets against a hub that does as told."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any

import pytest
from tests.support.hub_server import WAIT_SECONDS, HubServer, config_map
from websockets.asyncio.server import serve
from websockets.http11 import Request, Response

from fairlead_edge.errors import StoreFailed
from fairlead_edge.io import link as link_module
from fairlead_edge.io.link import Link, LinkDown
from fairlead_edge.metastore import MemoryMetastore, Metastore, Outcome, Put, Remove
from fairlead_wire import codec, digest, message

PATIENCE = 5.0


def make(url: str, store: Metastore, *, clock: Callable[[], float] = lambda: 50.0, pause: float = 0.01) -> Link:
    return Link(
        hub_url=url,
        node="edge-1",
        agent="test",
        store_epoch=77,
        store=store,
        clock=clock,
        random=Random(1),
        attempt_seconds_max=pause,
    )


@contextlib.asynccontextmanager
async def running(link: Link) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(link.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until it is so."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.005)


class SlowStore(MemoryMetastore):
    """Writes wait until the test lets them through."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.batches: list[int] = []

    async def apply(self, writes: Any, now: float) -> list[Outcome]:
        self.batches.append(len(writes))
        await self.gate.wait()
        return await super().apply(writes, now)


class BrokenStore(MemoryMetastore):
    """A disk that fails."""

    async def apply(self, writes: list[Put | Remove], now: float) -> list[Outcome]:  # type: ignore[override]
        raise StoreFailed("the disk failed")


async def test_objects_arrive_and_are_acked_and_deleted() -> None:
    """The whole way of an object, over a socket."""
    store = MemoryMetastore()
    async with HubServer() as hub, running(make(hub.url, store)):
        peer = await hub.open()
        assert (peer.hello.node, peer.hello.store_epoch, peer.hello.held) == ("edge-1", 77, 0)
        await peer.hold(config_map("a"), config_map("b"))
        assert (await store.summary()).held == 2
        answer = await peer.settled(await peer.delete(config_map("a")))
        assert isinstance(answer, message.Ack) and (await store.summary()).held == 1


async def test_a_slow_disk_makes_larger_batches_and_no_early_acks() -> None:
    """While one batch is written the others collect; nothing is acked meanwhile."""
    store = SlowStore()
    async with HubServer() as hub, running(make(hub.url, store)) as _:
        peer = await hub.open(keepalive_seconds=0.2)
        ids = [await peer.update(config_map(f"n-{number}")) for number in range(100)]
        header, _ = await peer.receive()
        assert isinstance(header, message.Keepalive)
        await peer.send(message.Keepalive())
        store.gate.set()
        await peer.settled(ids[-1])
        assert sum(store.batches) == 100 and len(store.batches) <= 3


async def test_a_damaged_object_is_nacked_and_the_others_go_on() -> None:
    """One poison object costs one nack."""
    async with HubServer() as hub, running(make(hub.url, MemoryMetastore())):
        peer = await hub.open()
        bad = await peer.update(config_map("bad"), told_digest="0" * 64)
        good = await peer.update(config_map("good"))
        nack = await peer.settled(bad)
        assert isinstance(nack, message.Nack) and (nack.code, nack.permanent) == ("digest_mismatch", True)
        assert isinstance(await peer.settled(good), message.Ack)


async def test_comparing_finds_what_is_held() -> None:
    """Sums, then entries of the buckets asked for."""
    async with HubServer() as hub, running(make(hub.url, MemoryMetastore())):
        peer = await hub.open()
        await peer.hold(*(config_map(f"n-{number}") for number in range(20)))
        await peer.send(message.Compare(id=900, bits=2))
        buckets, sums = await peer.expect(message.Buckets)
        assert (buckets.parent_id, len(sums)) == (900, digest.SUM_BYTES << 2)
        await peer.send(message.ListBuckets(id=901, bits=2, buckets=[0, 1, 2, 3]))
        entries, content = await peer.expect(message.Entries)
        assert entries.last and codec.unpack(entries.encoding, content).count(b"api/v1") == 20


async def test_it_comes_back_after_the_connection_broke() -> None:
    """And says what it holds now."""
    store = MemoryMetastore()
    link = make("", store)
    async with HubServer() as hub:
        link = make(hub.url, store)
        async with running(link):
            peer = await hub.open()
            await peer.hold(config_map("a"))
            peer.connection.transport.abort()
            peer = await hub.open(fence=2)
            assert (peer.hello.held, peer.hello.fence) == (1, 1)
            await until(lambda: link.state.fence == 2)
            assert link.counters["sessions"] == 2


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


async def test_a_hub_that_says_nothing_any_more_is_left() -> None:
    """Half open: no packet comes, no close either."""
    async with HubServer() as hub:
        link = make(hub.url, MemoryMetastore())
        async with running(link):
            await hub.open(keepalive_seconds=0.1)
            await until(lambda: link.counters["ended_silent"] == 1)
            await hub.open()


async def test_keepalives_keep_a_quiet_link() -> None:
    """Nothing to say is no reason to part."""
    async with HubServer() as hub:
        link = make(hub.url, MemoryMetastore())
        async with running(link):
            peer = await hub.open(keepalive_seconds=0.1)
            for _ in range(6):
                await peer.expect(message.Keepalive)
                await peer.send(message.Keepalive())
            assert hub.connections == 1 and link.state.state == "connected"


async def test_attempts_are_jittered_and_never_further_apart_than_told() -> None:
    """A node is back within a second of the hub, and a thousand nodes do not come at once."""
    link = make("ws://127.0.0.1:9", MemoryMetastore(), pause=1.0)
    pauses = [link._pause(0.0) for _ in range(1000)]
    assert max(pauses) <= 1.0 and min(pauses) >= 0.5 and len(set(pauses)) > 900
    asked = [link._pause(20.0) for _ in range(100)]
    assert min(asked) >= 20.0 and max(asked) <= 21.0
    assert link._pause(1e9) <= link_module.RETRY_AFTER_SECONDS_MAX + 1.0


async def test_a_busy_hub_is_left_alone_as_long_as_it_asks() -> None:
    """Refused with a time: not before."""
    async with HubServer() as hub:
        link = make(hub.url, MemoryMetastore())
        async with running(link):
            peer = await hub.accept()
            began = asyncio.get_running_loop().time()
            await peer.send(message.Refuse(code="busy", reason="too many sessions", retry_after=0.3))
            await hub.accept()
            assert asyncio.get_running_loop().time() - began >= 0.3
            assert "too many sessions" in link.state.reason


async def test_a_hub_that_answers_503_is_left_alone_as_long_as_it_asks() -> None:
    """Refused before there was a WebSocket: Retry-After counts."""
    times: list[float] = []

    def turn_away(connection: Any, request: Request) -> Response:
        times.append(asyncio.get_running_loop().time())
        response = connection.respond(503, "busy\n")
        response.headers["Retry-After"] = "0.3"
        return response  # type: ignore[no-any-return]

    async with serve(lambda connection: connection.wait_closed(), "127.0.0.1", 0, process_request=turn_away) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        link = make(f"ws://127.0.0.1:{port}", MemoryMetastore())
        async with running(link):
            await until(lambda: len(times) == 3)
            assert link.counters["ended_turned_away"] >= 2
    assert min(later - earlier for earlier, later in itertools.pairwise(times)) >= 0.3


async def test_told_not_to_come_back_it_stays_away() -> None:
    """A replaced session, a node that was deleted: dialling on would only fight."""
    async with HubServer() as hub:
        link = make(hub.url, MemoryMetastore())
        async with running(link) as task:
            peer = await hub.accept()
            await peer.send(message.Refuse(code="replaced", reason="another agent has this identity"))
            await asyncio.wait_for(task, WAIT_SECONDS)
            assert (link.state.state, link.state.reason) == ("refused", "another agent has this identity")
            assert hub.connections == 1


async def test_an_older_hub_is_left() -> None:
    """Its fence is below one that was obeyed; the next attempt may find the right one."""
    store = MemoryMetastore()
    await store.obey(9)
    async with HubServer() as hub:
        link = make(hub.url, store)
        async with running(link):
            peer = await hub.open(fence=8)
            await asyncio.wait_for(peer.connection.wait_closed(), WAIT_SECONDS)
            assert "fence 8" in (peer.connection.close_reason or "")
            await until(lambda: link.counters["ended_stale_hub"] == 1)
            assert await store.fence() == 9


@pytest.mark.parametrize("frame", [b"garbage", b"\x01\x00\x00\x00\x02{}", "text", b"x" * (codec.FRAME_BYTES_MAX + 1)])
async def test_garbage_ends_the_session_with_a_reason_and_not_the_agent(frame: bytes | str) -> None:
    """The next session is as good as any."""
    async with HubServer() as hub, running(make(hub.url, MemoryMetastore())) as task:
        peer = await hub.open()
        await peer.connection.send(frame)
        await asyncio.wait_for(peer.connection.wait_closed(), WAIT_SECONDS)
        assert peer.connection.close_code in (1002, 1009) and peer.connection.close_reason
        again = await hub.open()
        await again.hold(config_map("a"))
        assert not task.done()


async def test_batches_go_up_and_answers_come_back() -> None:
    """In the order they were offered; each gets its own answer."""
    async with HubServer() as hub:
        link = make(hub.url, MemoryMetastore())
        async with running(link):
            opened = asyncio.Event()
            link.on_open(opened.set)
            with pytest.raises(LinkDown):
                await link.send_upstream("iothub", "", b"[]")
            peer = await hub.open(upstream_window=2)
            await asyncio.wait_for(opened.wait(), WAIT_SECONDS)
            assert link.upstream_window == 2
            sent = [asyncio.create_task(link.send_upstream(f"s{number}", "", b"[]")) for number in range(2)]
            first, _ = await peer.expect(message.Upstream)
            second, _ = await peer.expect(message.Upstream)
            assert (first.stream, second.stream) == ("s0", "s1")
            nack = message.Nack(parent_id=second.id, code="busy", reason="later")
            await peer.send(nack)
            await peer.send(message.Ack(parent_id=first.id))
            assert await asyncio.gather(*sent) == [message.Ack(parent_id=first.id), nack]


async def test_a_batch_without_an_answer_fails_when_the_link_goes_down() -> None:
    """Whether the hub has it is unknown; it is offered again, and known there by its number."""
    async with HubServer() as hub:
        link = make(hub.url, MemoryMetastore())
        async with running(link):
            peer = await hub.open()
            await until(lambda: link.upstream_window > 0)
            sent = asyncio.create_task(link.send_upstream("iothub", "", b"[]"))
            await peer.expect(message.Upstream)
            peer.connection.transport.abort()
            with pytest.raises(LinkDown):
                await asyncio.wait_for(sent, WAIT_SECONDS)
            assert link.upstream_window == 0


async def test_the_account_is_reported_in_each_session() -> None:
    """Also what was reported while no session was open."""
    async with HubServer() as hub:
        link = make(hub.url, MemoryMetastore())
        link.report(message.EdgeStatus(held=5))
        async with running(link):
            for _ in range(2):
                peer = await hub.open()
                header, content = await peer.receive()
                assert isinstance(header, message.Status) and b'"held":5' in content
                peer.connection.transport.abort()


async def test_a_failed_disk_ends_the_agent_not_only_the_session() -> None:
    """What it says cannot be believed any more; a restart reads what is really there."""
    async with HubServer() as hub, running(make(hub.url, BrokenStore())) as task:
        peer = await hub.open()
        await peer.update(config_map("a"))
        with pytest.raises(StoreFailed):
            await asyncio.wait_for(task, WAIT_SECONDS)


async def test_the_time_of_the_last_contact_outlives_the_agent() -> None:
    """So that a copy's age is told rightly after a restart without a link."""
    store = MemoryMetastore()
    times = [100.0]
    async with HubServer() as hub:
        link = make(hub.url, store, clock=lambda: times[0])
        async with running(link):
            peer = await hub.open()
            await peer.hold(config_map("a"))
            times[0] = 160.0
            assert link.last_contact() == pytest.approx(160.0, abs=PATIENCE)
            peer.connection.transport.abort()
            await until(lambda: link.state.state == "connecting")
    kept = await store.contact_at()
    assert kept == pytest.approx(160.0, abs=PATIENCE)
    later = make("ws://127.0.0.1:9", store, clock=lambda: 500.0)
    async with running(later):
        await until(lambda: later.state.reason != "")
        assert later.last_contact() == kept


async def test_stopping_says_goodbye() -> None:
    """The hub knows at once that the node leaves, and run returns."""
    async with HubServer() as hub:
        link = make(hub.url, MemoryMetastore())
        async with running(link) as task:
            peer = await hub.open()
            await until(lambda: link.upstream_window > 0)
            link.stop()
            await asyncio.wait_for(task, WAIT_SECONDS)
            await asyncio.wait_for(peer.connection.wait_closed(), WAIT_SECONDS)
            assert peer.connection.close_code == 1001 and link.ended.is_set()


async def test_stopping_while_waiting_for_the_next_attempt() -> None:
    """Nothing to wait for."""
    link = make("ws://127.0.0.1:9", MemoryMetastore(), pause=600.0)
    async with running(link) as task:
        await until(lambda: link.state.reason != "")
        link.stop()
        await asyncio.wait_for(task, WAIT_SECONDS)
