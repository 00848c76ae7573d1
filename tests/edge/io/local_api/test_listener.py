"""Ports: plain, TLS, or both on one."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from tests.support.joining.pki import Authority
from tests.support.processes import free_ports

from fairlead_edge.io.local_api import connections, listener
from fairlead_edge.io.local_api.listener import CannotListen, listen

WAIT_SECONDS = 100.0


class Pki:
    """Both sides' contexts."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder)
        pair = authority.issue("edge-1", hosts=("127.0.0.1",))
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(pair.certificate, pair.key)
        self.client = ssl.create_default_context(cafile=str(authority.certificate))


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


@contextlib.asynccontextmanager
async def serving(pki: Pki | None, *, plain: bool = True) -> AsyncIterator[int]:
    """A server that says how it was asked; yields its port."""
    app = web.Application()

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=request.scheme)

    app.router.add_get("/", answer)
    [port] = free_ports(1)
    context = pki.server if pki else None
    async with await listen(app, key="http_listen", host="127.0.0.1", port=port, context=context, plain=plain):
        yield port


async def ask(port: int, scheme: str, pki: Pki | None = None) -> str:
    ssl_of = pki.client if pki else True
    async with aiohttp.ClientSession() as session, session.get(f"{scheme}://127.0.0.1:{port}/", ssl=ssl_of) as answer:
        return await answer.text()


async def test_plain_and_tls_share_a_port(pki: Pki) -> None:
    async with serving(pki) as port:
        answers = await asyncio.gather(*(ask(port, scheme, pki) for scheme in ("http", "https") * 10))
        assert answers == ["http", "https"] * 10


async def test_beyond_loopback_tls_alone(pki: Pki) -> None:
    async with serving(pki, plain=False) as port:
        assert await ask(port, "https", pki) == "https"
        with pytest.raises(aiohttp.ClientError):
            await ask(port, "http")


async def test_plain_alone(pki: Pki) -> None:
    async with serving(None) as port:
        assert await ask(port, "http") == "http"
        with pytest.raises(aiohttp.ClientError):
            await ask(port, "https", pki)


async def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for context in (None, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)):
            with pytest.raises(
                CannotListen, match=f"http_listen 127.0.0.1:{port}: Address already in use; find .*:{port}"
            ):
                await listen(web.Application(), key="http_listen", host="127.0.0.1", port=port, context=context)


@pytest.mark.slow
async def test_connections_that_never_speak_are_closed(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "OPENING_SECONDS_MAX", 1.0)
    async with serving(pki) as port:
        silent, _ = await asyncio.open_connection("127.0.0.1", port)
        half, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(listener.TLS_HANDSHAKE)
        _, gone = await asyncio.open_connection("127.0.0.1", port)
        gone.close()
        assert await ask(port, "http") == "http"
        async with asyncio.timeout(WAIT_SECONDS):
            with contextlib.suppress(ConnectionError):
                assert await silent.read() == b""
            with contextlib.suppress(ConnectionError):
                assert await half.read() == b""
        assert await ask(port, "https", pki) == "https"


async def test_too_many_that_do_not_speak_make_way(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "OPENING_MAX", 3)
    async with serving(pki) as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        assert await ask(port, "http") == "http"
        async with asyncio.timeout(WAIT_SECONDS):
            for reader, _ in silent[:2]:
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
        for _, writer in silent:
            writer.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["plain", "tls", "both"])
async def test_half_a_request_is_not_waited_for(pki: Pki, monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    async with serving(None if scheme == "plain" else pki, plain=scheme != "tls") as port:
        context = pki.client if scheme == "tls" else None
        async with asyncio.timeout(WAIT_SECONDS):
            kept, speaking = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            await speak(kept, speaking)
            monkeypatch.setattr(listener, "HEADER_SECONDS_MAX", 0.5)  # for the next connection
            slow, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
            with contextlib.suppress(ConnectionError):
                assert await slow.read() == b""
            await speak(kept, speaking)
            speaking.close()


async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request that is answered."""
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 200 " in head
    await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))


class Client:
    """A connection that is kept."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, port: int) -> Client:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self) -> bool:
        """A whole answer; False when the connection was closed."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            self.writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in await self.reader.readuntil(b"\r\n\r\n")
            assert await self.reader.readexactly(4) == b"http"
            return True
        return False

    async def ended(self) -> bool:
        with contextlib.suppress(ConnectionError):
            assert await self.reader.read() == b""
        return True


async def test_idle_connections_make_way_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "CONNECTIONS_MAX", 3)
    async with serving(None) as port, asyncio.timeout(WAIT_SECONDS):
        kept = [await Client.connect(port) for _ in range(3)]
        for client in kept:
            assert await client.ask()
        assert await kept[0].ask(), "the second is idle for longest now"
        late = await Client.connect(port)
        assert await late.ask()
        assert await kept[1].ended()
        for client in (kept[2], kept[0], late):
            assert await client.ask()
        for client in (*kept, late):
            client.writer.close()


async def test_a_slow_body_makes_way_and_what_is_being_answered_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "CONNECTIONS_MAX", 2)
    monkeypatch.setattr(connections, "SLOW_BODY_SECONDS", 0.0)
    going_on = asyncio.Event()
    came: asyncio.Queue[str] = asyncio.Queue()
    app = web.Application()

    async def slow(request: web.Request) -> web.Response:
        came.put_nowait("slow")
        await request.read()
        return web.Response()

    async def long(_: web.Request) -> web.Response:
        came.put_nowait("long")
        await going_on.wait()
        return web.Response(text="http")

    app.router.add_post("/slow", slow)
    app.router.add_get("/", long)
    [port] = free_ports(1)
    async with (
        await listen(app, key="http_listen", host="127.0.0.1", port=port),
        asyncio.timeout(WAIT_SECONDS),
    ):
        sending, asking, late = [await Client.connect(port) for _ in range(3)]
        sending.writer.write(b"POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx")
        assert await came.get() == "slow"
        first = asyncio.create_task(asking.ask())
        assert await came.get() == "long"
        second = asyncio.create_task(late.ask())
        assert await sending.ended()
        assert await came.get() == "long"
        refused = await Client.connect(port)
        assert not await refused.ask(), "none makes way now"
        going_on.set()
        assert await first and await second
        for client in (asking, late, sending, refused):
            client.writer.close()


async def test_a_client_that_does_not_read_its_answer_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(connections, "STALLED_SECONDS_MAX", 0.3)
    app = web.Application()

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=bytes(32 << 20))

    app.router.add_get("/", answer)
    [port] = free_ports(1)
    async with (
        await listen(app, key="http_listen", host="127.0.0.1", port=port),
        asyncio.timeout(WAIT_SECONDS),
    ):
        deaf = await Client.connect(port)
        deaf.writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        reading = await Client.connect(port)
        reading.writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reading.reader.readuntil(b"\r\n\r\n")
        assert len(await reading.reader.readexactly(32 << 20)) == 32 << 20
        transport = deaf.writer.transport
        transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(0)
        while True:
            try:
                deaf.writer.write(b"\r\n")
                await deaf.writer.drain()
                await asyncio.sleep(0.01)
            except ConnectionError:
                break
        reading.writer.close()


@pytest.mark.parametrize(
    "garbage", [b"garbage\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n"]
)
async def test_what_is_no_http_is_refused(garbage: bytes) -> None:
    async with serving(None) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(garbage)
        async with asyncio.timeout(WAIT_SECONDS):
            assert b" 400 " in await reader.readline()
        writer.close()
