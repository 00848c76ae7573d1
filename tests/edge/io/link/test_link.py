"""The connection to the hub, over real sockets: when it dials, when it waits, when it stays away."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from functools import partial
from typing import Any

import pytest
from tests.support.edges.edge_link import linked, make, running, until
from tests.support.hubs.hub_server import WAIT_SECONDS, HubServer, config_map
from websockets.asyncio.server import serve
from websockets.http11 import Request, Response

from fairlead_edge.io.link import dialler
from fairlead_edge.io.link import link as link_module
from fairlead_edge.io.link.link import Link
from fairlead_edge.link_state import StaleHub
from fairlead_edge.objects.memory_metastore import MemoryMetastore
from fairlead_wire import message

PATIENCE = 30.0


async def test_it_comes_back_after_the_connection_broke() -> None:
    store = MemoryMetastore()
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


async def test_an_unexpected_error_ends_a_connection_and_not_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    converse = link_module.Link._converse
    errors = iter([RuntimeError("what a library never raised before"), KeyError("gone")])

    async def broken(self: link_module.Link, connection: Any, context: Any) -> Any:
        for error in errors:
            raise error
        return await converse(self, connection, context)

    monkeypatch.setattr(link_module.Link, "_converse", broken)
    async with linked() as (hub, link):
        await until(lambda: link.state.state == "connected" or hub._arrived.qsize() > 2)
        for _ in range(2):
            hub._arrived.get_nowait()
        await hub.open()
        await until(lambda: link.state.state == "connected")
        assert link.counters["ended_error"] == 2


async def test_an_outage_is_dated_from_its_beginning_and_counted() -> None:
    seconds = itertools.count(50)
    async with HubServer() as hub:
        link = make(hub.url, MemoryMetastore())
        link._clock = lambda: float(next(seconds))
        async with running(link):
            await hub.open()
            await until(lambda: link.state.state == "connected")
            port, before = hub.port, link.state.offline_seconds
            await hub.__aexit__()
            await until(lambda: link.state.state == "connecting")
            began = link.state.since
            await until(lambda: link.counters["ended_unreachable"] >= 2)
            assert link.state.since == began
            async with HubServer(port) as again:
                await again.open()
                await until(lambda: link.state.state == "connected")
                assert link.state.offline_seconds > before


@pytest.mark.slow
async def test_a_hub_that_says_nothing_any_more_is_left() -> None:
    async with linked() as (hub, link):
        await hub.open(keepalive_seconds=0.1)
        await until(lambda: link.counters["ended_silent"] == 1)
        await hub.open()


async def test_attempts_are_jittered_and_never_further_apart_than_configured() -> None:
    """A node is back within a second of the hub, and a thousand nodes do not come at once."""
    link = make("ws://127.0.0.1:9", MemoryMetastore(), pause=1.0)
    pauses = [link._pause(0.0) for _ in range(1000)]
    assert max(pauses) <= 1.0 and min(pauses) >= 0.5 and len(set(pauses)) > 900
    asked = [link._pause(20.0) for _ in range(100)]
    assert min(asked) >= 20.0 and max(asked) <= 21.0
    assert link._pause(1e9) <= link_module.RETRY_AFTER_SECONDS_MAX + 1.0


@pytest.mark.slow
async def test_where_packets_are_dropped_it_dials_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dial that gets no answer is given up soon, so that a link that came back is found soon."""
    monkeypatch.setattr(dialler, "DIAL_SECONDS_MAX", 0.1)
    with contextlib.ExitStack() as stack:
        deaf = stack.enter_context(socket.socket())
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        for _ in range(4):  # its queue is full now: further handshakes are dropped, as on a dead link
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(deaf.getsockname())
        link = make(f"ws://127.0.0.1:{deaf.getsockname()[1]}", MemoryMetastore())
        async with running(link):
            await until(lambda: link.counters["ended_unreachable"] >= 3)


async def test_a_hub_whose_name_is_not_known_yet_is_tried_again() -> None:
    link = make("ws://hub.invalid:1", MemoryMetastore())
    async with running(link):
        await until(lambda: link.counters["ended_unreachable"] >= 2)


@pytest.mark.slow
async def test_a_busy_hub_is_left_alone_as_long_as_it_asks() -> None:
    async with linked() as (hub, link):
        peer = await hub.accept()
        began = asyncio.get_running_loop().time()
        await peer.send(message.Refuse(code="busy", reason="too many sessions", retry_after=0.3))
        await hub.accept()
        assert asyncio.get_running_loop().time() - began >= 0.3
        assert "too many sessions" in link.state.reason


@pytest.mark.slow
async def test_a_hub_that_answers_503_is_left_alone_as_long_as_it_asks() -> None:
    times: list[float] = []

    def turn_away(connection: Any, request: Request) -> Response:
        times.append(asyncio.get_running_loop().time())
        response = connection.respond(503, "busy\n")
        response.headers["Retry-After"] = "1"
        return response  # type: ignore[no-any-return]

    async with serve(lambda connection: connection.wait_closed(), "127.0.0.1", 0, process_request=turn_away) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        link = make(f"ws://127.0.0.1:{port}", MemoryMetastore())
        async with running(link):
            await until(lambda: len(times) == 2)
            assert link.counters["ended_turned_away"] >= 1
    assert min(later - earlier for earlier, later in itertools.pairwise(times)) >= 1.0


async def test_a_refusal_for_good_ends_the_attempts() -> None:
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
    await store.persist_fence(9)
    async with HubServer() as hub:
        link = make(hub.url, store)
        async with running(link):
            peer = await hub.open(fence=8)
            await asyncio.wait_for(peer.connection.wait_closed(), WAIT_SECONDS)
            assert "fence 8" in (peer.connection.close_reason or "")
            await until(lambda: link.counters["ended_stale_hub"] == 1)
            assert await store.fence() == 9


async def refused(hub: HubServer, *, retry_after: float = 0.01, **more: Any) -> int:
    """The next hello is refused by a hub whose number is 16; returns the number that the hello named."""
    peer = await hub.accept()
    await peer.send(message.Refuse(code="stale_hub", reason="this is 16", retry_after=retry_after, **more))
    await asyncio.wait_for(peer.connection.wait_closed(), WAIT_SECONDS)
    return peer.hello.fence


def follows_at(link: Link, seconds: float) -> bool:
    return link.state.follows_at == seconds


async def test_a_higher_fence_is_given_up_for_the_hub_that_holds_the_lease() -> None:
    """One welcome with a number no hub ever had shuts no node out for good, however often the agent starts anew."""
    store, times = MemoryMetastore(), [50.0]
    await store.persist_fence(1_000_000)
    async with HubServer() as hub:
        for times[0] in (50.0, 300.0, 649.0):
            async with running(link := make(hub.url, store, clock=lambda: times[0])):
                assert await refused(hub, retry_after=60.0, fence=16) == 1_000_000
                await until(partial(follows_at, link, 650.0))
        times[0] = 650.0
        async with running(link := make(hub.url, store, clock=lambda: times[0])):
            assert await refused(hub, retry_after=60.0, fence=16) == 1_000_000
            peer = await hub.accept()
            assert peer.hello.fence == await store.fence() == 16 and link.counters["fences_given_up"] == 1
            await peer.welcome(fence=16)
            await until(lambda: link.state.fence == 16)


async def test_a_session_in_between_begins_the_time_anew() -> None:
    store, times = MemoryMetastore(), [50.0]
    async with HubServer() as hub, running(make(hub.url, store, clock=lambda: times[0])):
        for times[0] in (50.0, 700.0):
            peer = await hub.open(fence=20)
            await until(lambda: store._fence == 20)
            peer.connection.transport.abort()
            assert await refused(hub, fence=16) == 20
        await until(lambda: store._stale_hub == StaleHub(since=700.0, highest=16))


async def test_a_hub_without_the_lease_is_never_followed() -> None:
    store, times = MemoryMetastore(), [50.0]
    await store.persist_fence(17)
    async with HubServer() as hub:
        async with running(make(hub.url, store, clock=lambda: times[0])):
            for times[0] in (50.0, 1e6, 1e7):
                assert await refused(hub) == 17
        assert await store.fence() == 17


async def test_a_number_is_given_up_at_once_when_a_person_approved_it() -> None:
    store = MemoryMetastore()
    await store.persist_fence(1_000_000)
    async with HubServer() as hub, running(make(hub.url, store)):
        assert await refused(hub, fence=16, approved=True) == 1_000_000
        assert (await hub.accept()).hello.fence == 16


async def test_no_number_is_given_up_that_the_hub_itself_has_shown_since() -> None:
    store = MemoryMetastore()
    await store.persist_fence(17)
    async with HubServer() as hub, running(make(hub.url, store)):
        peer = await hub.open(fence=20)
        await until(lambda: store._fence == 20)
        await peer.send(message.Refuse(code="stale_hub", reason="", retry_after=0.01, fence=1, approved=True))
        await asyncio.wait_for(peer.connection.wait_closed(), WAIT_SECONDS)
        assert (await hub.accept()).hello.fence == 20


async def test_the_account_is_reported_in_each_session() -> None:
    async with HubServer() as hub:
        link = make(hub.url, MemoryMetastore())
        link.report(message.EdgeStatus(held=5))
        async with running(link):
            for _ in range(2):
                peer = await hub.open()
                header, content = await peer.receive()
                assert isinstance(header, message.Status) and b'"held":5' in content
                peer.connection.transport.abort()


async def test_the_time_of_the_last_contact_outlives_the_agent() -> None:
    """So that a copy's age is right after a restart without a link."""
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


async def test_the_time_of_the_last_contact_outlives_a_goodbye_that_is_cut_off() -> None:
    """A busy machine takes longer than a draining agent waits: the first contact of all must not be lost with it."""
    store = MemoryMetastore()
    async with HubServer() as hub:
        link = make(hub.url, store, clock=lambda: 160.0)
        async with running(link) as task:
            peer = await hub.open()
            await peer.hold(config_map("a"))
            link.stop()
            task.cancel()
            await asyncio.wait([task])
            await link.write_contact()
    assert await store.contact_at() == pytest.approx(160.0, abs=PATIENCE)


async def test_stopping_says_goodbye() -> None:
    async with HubServer() as hub:
        link = make(hub.url, MemoryMetastore())
        async with running(link) as task:
            peer = await hub.open()
            await until(lambda: link.upstream_window > 0)
            link.stop()
            await asyncio.wait_for(task, WAIT_SECONDS)
            await asyncio.wait_for(peer.connection.wait_closed(), WAIT_SECONDS)
            assert peer.connection.close_code == 1001 and link.ended.is_set()


async def test_what_is_held_is_compared_again_when_less_is_held() -> None:
    store = MemoryMetastore()
    async with HubServer() as hub:
        link = make(hub.url, store)
        async with running(link):
            peer = await hub.open()
            assert peer.hello.held == 0
            await peer.hold(config_map("a"))
            link.compare_again("an object is damaged")
            peer = await hub.open()
            assert peer.hello.held == 1
    link.compare_again("no session is open")


async def test_stopping_while_waiting_for_the_next_attempt() -> None:
    link = make("ws://127.0.0.1:9", MemoryMetastore(), pause=600.0)
    async with running(link) as task:
        await until(lambda: link.state.reason != "")
        link.stop()
        await asyncio.wait_for(task, WAIT_SECONDS)
