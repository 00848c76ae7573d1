"""A hub for tests of the edge: a real WebSocket server with the link protocol, controlled by the test.

async with HubServer() as hub:
    peer = await hub.accept()                 # hello was read; peer.hello
    await peer.welcome(fence=1)
    id = await peer.update(config_map("a"))
    assert (await peer.expect(message.Ack)).parent_id == id
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, TypeVar

import msgspec
from websockets.asyncio.server import Server, ServerConnection, serve

from fairlead_wire import message
from fairlead_wire.link import codec
from fairlead_wire.objects import digest

WAIT_SECONDS = 100.0
Header = TypeVar("Header")


def config_map(
    name: str, *, namespace: str = "shop", uid: str = "", data: str = "1", **metadata: Any
) -> dict[str, Any]:
    """A small object."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}", **metadata},
        "data": {"value": data},
    }


def path_of(document: dict[str, Any], plural: str) -> str:
    """The REST path of an object."""
    version, metadata = document["apiVersion"], document["metadata"]
    root = f"apis/{version}" if "/" in version else f"api/{version}"
    inside = f"/namespaces/{metadata['namespace']}" if metadata.get("namespace") else ""
    return f"{root}{inside}/{plural}/{metadata['name']}"


class Peer:
    """One edge's session, from the hub's side."""

    def __init__(self, connection: ServerConnection) -> None:
        self.connection = connection
        self.hello: message.Hello
        self.frames: list[tuple[message.FromEdge, bytes]] = []
        self._next_id = 1

    async def receive(self) -> tuple[message.FromEdge, bytes]:
        """The next frame of any kind."""
        async with asyncio.timeout(WAIT_SECONDS):
            frame = await self.connection.recv(decode=False)
        found = codec.decode_from_edge(frame)
        self.frames.append(found)
        return found

    async def expect(self, kind: type[Header]) -> tuple[Header, bytes]:
        """The next frame of this kind; keepalives and status reports in between are skipped."""
        while True:
            header, content = await self.receive()
            if isinstance(header, kind):
                return header, content
            passing = isinstance(header, message.Keepalive | message.Status)
            assert passing, f"waited for {kind.__name__}, the edge sent {header}"

    async def send(self, header: message.FromHub, content: bytes = b"") -> None:
        await self.connection.send(codec.encode(header, content))

    async def welcome(self, *, fence: int = 1, keepalive_seconds: float = 10.0, upstream_window: int = 4) -> None:
        await self.send(
            message.Welcome(
                hub="test-hub",
                fence=fence,
                session=1,
                keepalive_seconds=keepalive_seconds,
                frame_bytes_max=codec.FRAME_BYTES_MAX,
                upstream_window=upstream_window,
            )
        )

    def take_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    async def update(
        self,
        document: dict[str, Any],
        *,
        plural: str = "configmaps",
        version: str = "1",
        told_digest: str = "",
        traceparent: str | None = None,
    ) -> int:
        """Send an object; returns the message's id."""
        id = self.take_id()
        content = msgspec.json.encode(document)
        encoding, packed = codec.pack(content)
        header = message.Update(
            id=id,
            resource=path_of(document, plural),
            uid=document["metadata"]["uid"],
            resource_version=version,
            digest=told_digest or digest.content_digest(content),
            encoding=encoding,
            traceparent=traceparent,
        )
        await self.send(header, packed)
        return id

    async def delete(self, document: dict[str, Any], *, plural: str = "configmaps") -> int:
        id = self.take_id()
        path = path_of(document, plural)
        await self.send(message.Delete(id=id, resource=path, uid=document["metadata"]["uid"]))
        return id

    async def settled(self, id: int) -> message.Ack | message.Nack:
        """The response to message ``id``; an ack may be cumulative."""
        while True:
            header, _ = await self.receive()
            if isinstance(header, message.Ack | message.Nack) and (
                header.parent_id == id
                or (isinstance(header, message.Ack) and header.cumulative and header.parent_id > id)
            ):
                return header

    async def hold(self, *documents: dict[str, Any], plural: str = "configmaps") -> None:
        """Send objects and wait until the edge has acknowledged all of them."""
        ids = [await self.update(document, plural=plural) for document in documents]
        answer = await self.settled(ids[-1])
        assert isinstance(answer, message.Ack), answer


class HubServer:
    """Listens on loopback; sessions queue up until the test accepts them."""

    def __init__(self, port: int = 0, context: ssl.SSLContext | None = None) -> None:
        self.port = port
        self._context = context
        self._server: Server | None = None
        self._arrived: asyncio.Queue[Peer] = asyncio.Queue()
        self.connections = 0

    @property
    def url(self) -> str:
        return f"{'wss' if self._context else 'ws'}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> HubServer:
        self._server = await serve(
            self._serve,
            "127.0.0.1",
            self.port,
            ssl=self._context,
            max_size=codec.FRAME_BYTES_MAX,
            compression=None,
            ping_interval=None,
        )
        self.port = next(iter(self._server.sockets)).getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, connection: ServerConnection) -> None:
        self.connections += 1
        self._arrived.put_nowait(Peer(connection))
        await connection.wait_closed()

    async def accept(self) -> Peer:
        """The next session, after reading its hello."""
        async with asyncio.timeout(WAIT_SECONDS):
            peer = await self._arrived.get()
        peer.hello, _ = await peer.expect(message.Hello)
        return peer

    async def open(self, *, fence: int = 1, keepalive_seconds: float = 10.0, upstream_window: int = 4) -> Peer:
        """Accept and welcome."""
        peer = await self.accept()
        await peer.welcome(fence=fence, keepalive_seconds=keepalive_seconds, upstream_window=upstream_window)
        return peer
