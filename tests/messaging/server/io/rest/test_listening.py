"""Connections of clients that say half, nothing, or take nothing; others are served, probes always."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from aiohttp import web
from tests.support.joining.pki import Authority
from tests.support.processes import free_ports, wait_until
from tests.support.topics.messaging import Clock
from tests.support.topics.messaging_program import MessagingProgram

from fairlead_messaging.client.io import sync_client
from fairlead_messaging.server import admission
from fairlead_messaging.server.admission import ConnectionLimits
from fairlead_messaging.server.io.broker import Broker
from fairlead_messaging.server.io.metrics import MessagingMetrics
from fairlead_messaging.server.io.rest.http import BROKER, METRICS, errors_as_json
from fairlead_messaging.server.io.rest.listening import ConnectionGate, Port
from fairlead_messaging.server.settings import MessagingSettings
from fairlead_messaging.server.store.memory_kv import MemoryKV
from fairlead_wire.errors import Temporary

HALF = b"POST /v1/namespaces/default/topics/t/publish HTTP/1.1\r\nHost: 127.0.0.1\r\n"
HALVES = 700
DESCRIPTORS = 1024


@contextlib.asynccontextmanager
async def serving(
    limits: ConnectionLimits, context: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[int, MessagingMetrics]]:
    """Answers /healthz, and everything else when ``go`` was asked for; yields the port."""
    metrics, going = MessagingMetrics(), asyncio.Event()
    gate = ConnectionGate(limits, metrics, "main")
    app = web.Application(middlewares=[errors_as_json, gate.note])
    app[METRICS] = metrics
    app[BROKER] = broker = Broker(MemoryKV(), MessagingSettings(security="insecure"), Clock(), "test")

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/go":
            going.set()
        elif request.path != "/healthz":
            await going.wait()
        return web.Response(text="answered")

    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1, auto_decompress=False)
    await runner.setup()
    port = Port(runner, gate, "127.0.0.1", 0, context)
    try:
        yield port.address[1], metrics
    finally:
        await port.close()
        await runner.cleanup()
        await broker.close()


class Client:
    """A connection one can look at."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, port: int, send: bytes = b"", tls: ssl.SSLContext | None = None) -> Client:
        client = cls(*await asyncio.open_connection("127.0.0.1", port, ssl=tls))
        client.writer.write(send)
        await client.writer.drain()
        return client

    async def ask(self, path: str) -> bytes:
        self.writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        return await self.reader.read(4096)

    async def is_closed(self) -> bool:
        with contextlib.suppress(ConnectionError):
            return await self.reader.read(4096) == b""
        return True


async def test_half_heads_make_room_for_others() -> None:
    async with serving(ConnectionLimits(total=20, peer=10, peer_waiting=5)) as (port, metrics):
        busy = await Client.connect(port, b"GET /later HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        halves = [await Client.connect(port, b"GET / HT") for _ in range(50)]
        assert b"answered" in await (await Client.connect(port)).ask("/healthz")
        assert all([await each.is_closed() for each in halves[:40]])
        assert b"answered" in await (await Client.connect(port)).ask("/go")
        assert b"answered" in await busy.reader.read(4096)
        assert b'reason="room"' in metrics.text()


async def test_with_every_connection_busy_probes_are_answered() -> None:
    async with serving(ConnectionLimits(total=20, peer=4, peer_waiting=4)) as (port, _):
        busy = [await Client.connect(port, b"GET /later HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") for _ in range(4)]
        await asyncio.sleep(0)
        refused = b""
        while b"503" not in refused:  # until the four are at work
            one = await Client.connect(port)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    refused = await one.ask("/later")
        assert b"too_many_connections" in refused and b"Retry-After" in refused
        for _ in range(10):
            assert b"answered" in await (await Client.connect(port)).ask("/healthz")
        busy[0].writer.close()


@pytest.mark.slow
async def test_deadlines_for_head_and_idleness(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(ConnectionLimits(total=20, peer=20, peer_waiting=20)) as (port, metrics):
        silent, half = await Client.connect(port), await Client.connect(port, HALF)
        idle = await Client.connect(port)
        assert b"answered" in await idle.ask("/healthz")
        monkeypatch.setattr(admission, "HEAD_SECONDS", 0.3)
        monkeypatch.setattr(admission, "IDLE_SECONDS", 0.6)
        assert await silent.is_closed() and await half.is_closed()
        assert await idle.is_closed()
        assert b'fairlead_messaging_closed_connections_total{port="main",reason="late"} 3.0' in metrics.text()


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_handshakes_are_counted_too(tmp_path: Path, loop_factory: Any) -> None:
    """Clients that never speak TLS hold no more than their share; one that does is served."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(_handshakes(tmp_path))


async def _handshakes(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("messaging", hosts=("127.0.0.1",))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pair.certificate, pair.key)
    client = ssl.create_default_context(cafile=str(authority.certificate))
    async with serving(ConnectionLimits(total=20, peer=10, peer_waiting=5), server) as (port, _):
        mute = [await Client.connect(port, b"\x16\x03") for _ in range(30)]
        assert b"answered" in await (await Client.connect(port, tls=client)).ask("/healthz")
        assert all([await each.is_closed() for each in mute[:20]])


@pytest.fixture
def program(tmp_path: Path) -> Iterator[MessagingProgram]:
    with MessagingProgram(tmp_path, descriptors=DESCRIPTORS, more="request_seconds_max = 5") as running:
        yield running


def _connect(port: int, send: bytes) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), 10)
    made.sendall(send)
    return made


@pytest.mark.process
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["half heads", "slow bodies", "idle", "never reading"])
def test_hundreds_of_bad_clients_lock_no_other_out(program: MessagingProgram, kind: str) -> None:
    """A real process with few descriptors: publishing works, and probes are answered, while they are there."""
    with sync_client.Client(program.url, timeout_seconds=60) as client:
        client.create_topic("default", "t")
        client.publish("default", "t", [b"x" * 1_000_000] * 4)
        poll = b'{"limit": 4}'
        sent = {
            "half heads": HALF,
            "slow bodies": HALF + b"Content-Length: 1000000\r\n\r\n{",
            "idle": b"GET /v1/namespaces/default/topics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            "never reading": b"POST /v1/namespaces/default/topics/t/poll HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            + b"Content-Length: %d\r\n\r\n" % len(poll) + poll,
        }[kind]  # fmt: skip
        bad: list[socket.socket] = []
        try:
            for _ in range(HALVES):
                with contextlib.suppress(OSError):
                    bad.append(_connect(program.port, sent))
            for _ in range(3):
                with urllib.request.urlopen(f"http://127.0.0.1:{program.health_port}/readyz", timeout=60) as answer:
                    assert json.load(answer)["status"] == "ready"

            def published() -> bool:
                client.publish("default", "t", [b"in between"])
                return True

            wait_until("publishing works", lambda: _quietly(published), seconds=120, describe=program.running.tail)
        finally:
            for each in bad:
                each.close()


def _quietly(do: object) -> bool:
    try:
        return bool(do())  # type: ignore[operator]
    except Temporary as error:
        raise OSError(str(error)) from error


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    async def listen() -> None:
        [port] = free_ports(1)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", port))
            taken.listen()
            runner = web.AppRunner(web.Application())
            await runner.setup()
            with pytest.raises(OSError, match=f"127.0.0.1:{port}: "):
                Port(
                    runner,
                    ConnectionGate(ConnectionLimits(total=1, peer=1), MessagingMetrics(), "main"),
                    "127.0.0.1",
                    port,
                    None,
                )
            await runner.cleanup()

    asyncio.run(listen())
