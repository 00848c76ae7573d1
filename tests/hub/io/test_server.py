"""The WebSocket server with the real core behind it and nodes on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random

import pytest
from tests.support.hub_core import CONFIG_MAPS, Core
from tests.support.pki import Authority
from websockets.asyncio.client import connect

from fairlead_cli.simulated_node import SimulatedNode
from fairlead_hub.io.server import LinkServer
from fairlead_hub.io.upstream import UpstreamDesk
from fairlead_wire import codec, message
from fairlead_wire.io import tls


class Served:
    """A core and its server on a free port."""

    def __init__(self, core: Core, server: LinkServer, port: int) -> None:
        self.core, self.server, self.port = core, server, port
        self.url = f"ws://127.0.0.1:{port}"

    def put(self, name: str, value: str = "1") -> None:
        self.core.now = asyncio.get_running_loop().time()
        self.core.put(name, data={"value": value})
        self.server.poke()


@contextlib.asynccontextmanager
async def serving(*nodes: str, authority: Authority | None = None) -> AsyncIterator[Served]:
    core = Core(*nodes)
    core.rule(CONFIG_MAPS)
    desk = UpstreamDesk(core.hub, None, window=4)
    context = None
    if authority is not None:
        pair = authority.issue("hub", hosts=("127.0.0.1",))
        context = tls.server_context(tls.Files(ca=authority.certificate, cert=pair.certificate, key=pair.key))
    server = LinkServer(core.hub, desk, context=context, on_stale=lambda fence: None)
    desk.wake = server.poke
    port = await server.start("127.0.0.1", 0)
    yield Served(core, server, port)
    await server.drain()


@contextlib.asynccontextmanager
async def node(served: Served, name: str, **options: object) -> AsyncIterator[SimulatedNode]:
    made = SimulatedNode(name, served.url, **options)  # type: ignore[arg-type]
    task = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def eventually(condition: Callable[[], object], seconds: float = 10.0) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it did not come true"
        await asyncio.sleep(0.01)


async def test_what_is_there_and_what_changes_reaches_the_node() -> None:
    """First sync, then a live change; the hub knows what is held."""
    async with serving("edge-1") as served:
        served.put("a")
        async with node(served, "edge-1") as edge:
            await eventually(lambda: len(edge.held) == 1)
            served.put("b")
            await eventually(lambda: len(edge.held) == 2)
            await eventually(lambda: len(served.core.hub.sessions["edge-1"].held) == 2)


async def test_large_contents_travel_in_parts() -> None:
    """A megabyte that does not compress arrives whole."""
    noise = Random(1).randbytes(500_000).hex()
    async with serving("edge-1") as served, node(served, "edge-1", keep_content=True) as edge:
        await eventually(edge.connected.is_set)
        served.put("large", noise)
        await eventually(lambda: any(noise.encode() in content for content in edge.contents.values()))


@pytest.mark.parametrize(
    "frame",
    [
        b"", b"\x01\x00\x00\x00\xff", b"\x02abc", codec.encode(message.Keepalive()),
        codec.encode(message.Hello(node="", agent="", store_epoch=1, fence=0, bits=99, held=0, root="")),
    ],
)  # fmt: skip
async def test_nonsense_is_refused_with_a_reason(frame: bytes) -> None:
    """Anything but a hello of a known node: one refuse frame, then the connection ends."""
    async with serving("edge-1") as served, connect(served.url, proxy=None) as socket:
        await socket.send(frame)
        header, _ = codec.decode_from_hub(await socket.recv())  # type: ignore[arg-type]
        assert isinstance(header, message.Refuse) and header.reason
        await socket.wait_closed()


async def test_nonsense_in_a_session_ends_that_session_only() -> None:
    """The protocol is kept or the session ends, with the reason; other nodes notice nothing."""
    async with serving("edge-1", "edge-2") as served, node(served, "edge-1") as good, node(served, "edge-2") as bad:
        await eventually(lambda: good.connected.is_set() and bad.connected.is_set())
        await bad.say(message.Buckets(parent_id=5, bits=0), b"")
        await eventually(lambda: bad.figures.refused == {"protocol": 1})
        assert good.figures.connections == 1 and served.core.hub.counts.malformed == 1


async def test_identity_is_the_certificates_name(tmp_path: Path) -> None:
    """With mTLS a node speaks for itself only, and nobody without a certificate is heard."""
    authority = Authority(tmp_path)
    pair = authority.issue("edge-1")
    context = tls.client_context(tls.Files(ca=authority.certificate, cert=pair.certificate, key=pair.key))
    async with serving("edge-1", "edge-2", authority=authority) as served:
        served.url = served.url.replace("ws://", "wss://")
        async with node(served, "edge-1", context=context) as edge:
            await eventually(edge.connected.is_set)
        async with node(served, "edge-2", context=context) as liar:
            await eventually(lambda: liar.figures.refused == {"identity": 1})


async def test_a_stopping_hub_tells_its_nodes() -> None:
    """They come back soon, to whoever serves then."""
    async with serving("edge-1") as served, node(served, "edge-1") as edge:
        await eventually(edge.connected.is_set)
        await served.server.drain()
        await eventually(lambda: edge.figures.refused == {"draining": 1})
