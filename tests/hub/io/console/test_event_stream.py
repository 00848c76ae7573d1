"""Streams of open pages: bounded, gone on with after a break, ended with the hub."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
from tests.support.hubs.console import Served, serving, until
from tests.support.hubs.hub_core import Core

from fairlead_hub.console.frames import FrameRing
from fairlead_hub.io.console import console
from fairlead_hub.io.console.console import PageListener

LARGE = 16_000_000
"""Bytes: more than sockets take for a page that does not read."""


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that went away is noticed at the next comment, which is after 15 s otherwise."""
    monkeypatch.setattr(console, "COMMENT_SECONDS", 0.05)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(Core("edge-1")) as found:
        yield found


async def frame(answer: aiohttp.ClientResponse) -> dict[str, str]:
    """The next one that is no comment."""
    while True:
        text = (await answer.content.readuntil(b"\n\n")).decode()
        if fields := dict(line.split(": ", 1) for line in text.splitlines() if line and not line.startswith(":")):
            return fields


async def named(answer: aiohttp.ClientResponse, name: str) -> dict[str, str]:
    async with asyncio.timeout(60):
        while (found := await frame(answer)).get("event") != name:
            pass
    return found


async def streams(served: Served, count: int) -> None:
    await until(lambda: len(served.console.pages.streams) == count, f"{count} streams")


def open_stream(session: aiohttp.ClientSession, served: Served, after: str, **headers: str):
    url = f"{served.url}/console/stream"
    return session.get(url, params={"after": after, "wants": "nodes,totals,events"}, headers=headers)


@pytest.mark.slow
async def test_changes_arrive_and_a_break_loses_none(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The browser says what it saw last; that is worth more than what the page began with."""
    monkeypatch.setattr(console, "COMMENT_SECONDS", 0.1)  # that a page has gone is seen when it is written to
    first = (await served.console.source.view()).last_id
    async with aiohttp.ClientSession() as session:
        async with open_stream(session, served, first) as answer:
            assert answer.headers["Content-Type"] == "text/event-stream"
            assert answer.headers["Cache-Control"] == "no-store"
            served.core.node("edge-2")
            served.core.now += 5.0
            found = await named(answer, "nodes")
            assert "edge-2" in found["data"]
        await streams(served, 0)
        served.core.node("edge-3")
        served.core.now += 5.0
        await served.console.source.view()
        async with open_stream(session, served, first, **{"Last-Event-ID": found["id"]}) as answer:
            again = await named(answer, "nodes")
            assert "edge-3" in again["data"] and "edge-2" not in again["data"]


async def test_a_page_of_another_run_loads_anew(served: Served) -> None:
    """Numbers of an earlier hub mean nothing here."""
    async with aiohttp.ClientSession() as session, open_stream(session, served, "other-7") as answer:
        assert await named(answer, "reset") == {"event": "reset", "data": "{}"}


async def test_no_more_than_a_hundred(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is refused with the remedy, and taken when another has left."""
    monkeypatch.setattr(console, "COMMENT_SECONDS", 0.1)
    assert console.STREAMS_MAX == 100
    monkeypatch.setattr(console, "STREAMS_MAX", 2)
    async with (
        aiohttp.ClientSession() as session,
        open_stream(session, served, ""),
        open_stream(session, served, "") as second,
    ):
        await streams(served, 2)
        async with open_stream(session, served, "") as third:
            assert third.status == 503 and third.headers["Retry-After"] == "30"
            assert "close one" in await third.text()
        second.close()
        await streams(served, 1)
        async with open_stream(session, served, "") as third:
            assert third.status == 200


async def test_a_stream_ends_after_its_time(served: Served) -> None:
    """The browser opens another one."""
    async with aiohttp.ClientSession() as session, open_stream(session, served, "") as answer:
        await streams(served, 1)
        served.core.now += console.STREAM_SECONDS + 1.0
        async with asyncio.timeout(60):
            await answer.content.read()


async def test_they_end_with_the_hub() -> None:
    """A server that stops would wait for open pages otherwise."""
    async with aiohttp.ClientSession() as session:
        async with serving(Core("edge-1")) as served:
            answer = await open_stream(session, served, "")
            await streams(served, 1)
        async with asyncio.timeout(60):
            await answer.content.read()


@contextlib.contextmanager
def not_reading(served: Served) -> Iterator[socket.socket]:
    """A page that opens its stream and takes nothing of it."""
    with socket.socket() as page:
        page.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        page.connect(("127.0.0.1", served.port))
        page.sendall(b"GET /console/stream?wants=nodes HTTP/1.1\r\nHost: localhost\r\n\r\n")
        yield page


async def is_cut(page: socket.socket) -> None:
    """What the hub had for it is gone: a connection that is only closed would first give it all."""
    page.setblocking(False)
    taken = 0
    with contextlib.suppress(ConnectionResetError):
        async with asyncio.timeout(60):
            while chunk := await asyncio.get_running_loop().sock_recv(page, 1_000_000):
                taken += len(chunk)
    assert taken < LARGE


@pytest.mark.slow
async def test_a_page_that_does_not_read_is_cut_off(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its connection and the bytes for it, or each that comes would stay for as long as it likes."""
    monkeypatch.setattr(console, "WRITE_SECONDS", 0.2)
    with not_reading(served) as page:
        await streams(served, 1)
        for listener in served.console.pages.streams.listeners():
            listener.push(served.console.source.ring.publish("nodes", "x" * LARGE))
        await streams(served, 0)
        await is_cut(page)


async def test_a_page_that_does_not_read_holds_up_no_end() -> None:
    """A hub that stops has half a minute; the page has that for one write."""
    async with serving(Core("edge-1")) as served:
        with not_reading(served) as page:
            await streams(served, 1)
            for listener in served.console.pages.streams.listeners():
                listener.push(served.console.source.ring.publish("nodes", "x" * LARGE))
            await until(lambda: served.console.pages.streams.unsent() > 0, "a write that waits")
            served.console.pages.streams.close()
            await streams(served, 0)
            await is_cut(page)


async def test_what_waits_is_bounded_in_bytes() -> None:
    """A frame of any size is sent, alone; many large ones are dropped for one sign."""
    listener, ring = PageListener(frozenset(["nodes"])), FrameRing("run")
    listener.push(ring.publish("nodes", "x" * (console.WAITING_BYTES_MAX + 1)))
    assert b"lag" not in await listener.next(60)
    for _ in range(5):
        listener.push(ring.publish("nodes", "x" * (console.WAITING_BYTES_MAX // 2)))
    sent = await listener.next(60)
    assert sent.startswith(b"event: lag\n") and len(sent) <= console.WAITING_BYTES_MAX


async def test_a_page_that_does_not_read_is_notified_that_it_lags() -> None:
    """Nothing gathers for it without end; then it loads anew."""
    listener, ring = PageListener(frozenset(["nodes"])), FrameRing("run")
    for number in range(console.WAITING_MAX + 1):
        listener.push(ring.publish("nodes", number))
        listener.push(ring.publish("totals", number))
    sent = await listener.next(60)
    assert sent.startswith(b"event: lag\n") and sent.count(b"id: ") == 1 and b"totals" not in sent
    listener.push(ring.publish("nodes", "next"))
    assert b"lag" not in await listener.next(60)
    assert (await listener.next(0.0)).startswith(b":")
