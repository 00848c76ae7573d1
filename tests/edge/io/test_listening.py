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
from tests.support.pki import Authority
from tests.support.processes import free_ports

from fairlead_edge.io import listening
from fairlead_edge.io.listening import CannotListen, listen

WAIT_SECONDS = 10.0


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
    """Applications ask plainly, kubectl over TLS; each gets its answer, also at the same time."""
    async with serving(pki) as port:
        answers = await asyncio.gather(*(ask(port, scheme, pki) for scheme in ("http", "https") * 10))
        assert answers == ["http", "https"] * 10


async def test_beyond_loopback_tls_alone(pki: Pki) -> None:
    """A token is never taken over plain HTTP there."""
    async with serving(pki, plain=False) as port:
        assert await ask(port, "https", pki) == "https"
        with pytest.raises(aiohttp.ClientError):
            await ask(port, "http")


async def test_plain_alone(pki: Pki) -> None:
    """Without certificates there is nothing to offer."""
    async with serving(None) as port:
        assert await ask(port, "http") == "http"
        with pytest.raises(aiohttp.ClientError):
            await ask(port, "https", pki)


async def test_a_port_in_use_is_named() -> None:
    """The setting and the address, for both ways of listening."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for context in (None, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)):
            with pytest.raises(CannotListen, match=f"http_listen 127.0.0.1:{port}: "):
                await listen(web.Application(), key="http_listen", host="127.0.0.1", port=port, context=context)


async def test_connections_that_never_speak_are_closed(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silent, half a handshake, or gone at once: none stays, and others are served meanwhile."""
    monkeypatch.setattr(listening, "OPENING_SECONDS_MAX", 0.2)
    async with serving(pki) as port:
        silent, _ = await asyncio.open_connection("127.0.0.1", port)
        half, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(listening.TLS_HANDSHAKE)
        _, gone = await asyncio.open_connection("127.0.0.1", port)
        gone.close()
        assert await ask(port, "http") == "http"
        async with asyncio.timeout(WAIT_SECONDS):
            with contextlib.suppress(ConnectionError):
                assert await silent.read() == b""
            with contextlib.suppress(ConnectionError):
                assert await half.read() == b""
        assert await ask(port, "https", pki) == "https"


async def test_too_many_that_do_not_speak_are_turned_away(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening connections are bounded; the next one is closed at once."""
    monkeypatch.setattr(listening, "OPENING_MAX", 1)
    async with serving(pki) as port:
        _, first = await asyncio.open_connection("127.0.0.1", port)
        second, _ = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(WAIT_SECONDS):
            with contextlib.suppress(ConnectionError):
                assert await second.read() == b""
        first.close()


@pytest.mark.parametrize("scheme", ["plain", "tls", "both"])
async def test_half_a_request_is_not_waited_for(pki: Pki, monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    """A header that never ends holds its connection for seconds; one that sent a request may stay."""
    monkeypatch.setattr(listening, "HEADER_SECONDS_MAX", 0.3)
    async with serving(None if scheme == "plain" else pki, plain=scheme != "tls") as port:
        context = pki.client if scheme == "tls" else None
        kept, speaking = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        slow, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
        for _ in range(2):
            speaking.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            async with asyncio.timeout(WAIT_SECONDS):
                assert b" 200 " in await kept.readline()
                await kept.readuntil(b"\r\n\r\n")
                await kept.read(5)
                with contextlib.suppress(ConnectionError):
                    assert await slow.read() == b""
        speaking.close()


async def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one is closed at once, and there is room again when one ends."""
    monkeypatch.setattr(listening, "CONNECTIONS_MAX", 1)
    async with serving(None) as port:
        reader, first = await asyncio.open_connection("127.0.0.1", port)
        first.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(WAIT_SECONDS):
            assert b" 200 " in await reader.readline()
            second, _ = await asyncio.open_connection("127.0.0.1", port)
            with contextlib.suppress(ConnectionError):
                assert await second.read() == b""
            first.close()
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    assert await ask(port, "http") == "http"
                    break


@pytest.mark.parametrize(
    "garbage", [b"garbage\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n"]
)
async def test_what_is_no_http_is_refused_without_a_traceback(garbage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """A client's fault is one line in the log, whatever it sent."""
    caplog.set_level("INFO")
    async with serving(None) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(garbage)
        async with asyncio.timeout(WAIT_SECONDS):
            assert b" 400 " in await reader.readline()
        writer.close()
    assert {record.getMessage() for record in caplog.records} <= {"listening", "malformed_request"}
    assert not [record for record in caplog.records if record.exc_info]
