"""A node that speaks the link over a real socket but keeps its store in memory: for sizing, benchmarks and tests.

    SimulatedNode.run ── hello ▸ compare ▸ updates ▸ acks ──▶ the hub, again after every break

It follows the protocol like an agent (digest and UID checked, cumulative acks) and misbehaves on request:
``never-ack``, ``nack``, ``lose-acks``, ``slow``, ``flapping``.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable
from random import Random
from typing import Literal

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from fairlead_wire import message
from fairlead_wire.backoff import equal_jitter
from fairlead_wire.errors import RemoteError
from fairlead_wire.link import codec
from fairlead_wire.link.session import KEEPALIVE_SECONDS
from fairlead_wire.objects import digest, resource

Behaviour = Literal["well", "slow", "never-ack", "nack", "lose-acks", "flapping"]
LOST_SHARE = 0.3
"""Share of ack frames that ``lose-acks`` drops."""
SLOW_SECONDS = 0.5
FLAPPING_SECONDS = 5.0
RETRY_SECONDS = 1.0
OPEN_SECONDS_MAX = 30.0
"""For TLS and the upgrade: thousands of nodes in one process are slower than thousands of machines."""
EPOCH_MAX = 1 << 53


class SimulatedObject(msgspec.Struct, frozen=True):
    """The version of one object that the node holds."""

    path: str
    uid: str
    digest: str
    version: str


class Figures(msgspec.Struct):
    """Counters of one node."""

    connections: int = 0
    updates: int = 0
    deletes: int = 0
    same: int = 0
    """Updates with content that was already held."""
    bytes_down: int = 0
    bytes_up: int = 0
    refused: dict[str, int] = {}
    last_change: float = 0.0


class SimulatedNode:
    """``run`` until cancelled; ``held`` survives breaks, ``wipe`` empties it as a new disk would."""

    def __init__(
        self,
        name: str,
        url: str,
        *,
        behaviour: Behaviour = "well",
        context: ssl.SSLContext | None = None,
        random: Random | None = None,
        refuse: Callable[[message.Update], message.Nack | None] = lambda update: None,
        on_update: Callable[[message.Update, float], None] = lambda update, now: None,
        keep_content: bool = False,
    ) -> None:
        self.name = name
        self.url = url
        self.behaviour = behaviour
        self.held: dict[str, SimulatedObject] = {}
        self.contents: dict[str, bytes] = {}
        self.figures = Figures()
        self.welcome: message.Welcome | None = None
        self.answers: list[message.Ack | message.Nack] = []
        """Responses to what was sent with ``say``."""
        self.connected = asyncio.Event()
        self._context = context
        self._random = random or Random(name)
        self._refuse = refuse
        self._on_update = on_update
        self._keep_content = keep_content
        self._fence = 0
        self._socket: ClientConnection | None = None
        self._to_ack = 0
        self._acking: asyncio.Task[None] | None = None
        self._parts: dict[int, tuple[message.Update, list[bytes]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.epoch = self._random.randrange(1, EPOCH_MAX)

    def wipe(self) -> None:
        """Empty the store, as a new disk would."""
        self.held.clear()
        self.contents.clear()
        self.epoch = self._random.randrange(1, EPOCH_MAX)

    async def run(self) -> None:
        """Connect, run the session, and reconnect."""
        while True:
            wait = equal_jitter(RETRY_SECONDS, self._random.random())
            try:
                async with connect(
                    self.url,
                    ssl=self._context,
                    compression=None,
                    ping_interval=None,
                    max_size=codec.FRAME_BYTES_MAX,
                    open_timeout=OPEN_SECONDS_MAX,
                    close_timeout=1,
                    proxy=None,
                ) as socket:
                    wait = max(wait, await self._converse(socket))
            except (OSError, ConnectionClosed, InvalidHandshake, TimeoutError, RemoteError):
                pass  # a node's answer to any break is the same: come back
            finally:
                self._socket = None
                self.connected.clear()
            await asyncio.sleep(wait)

    async def say(self, header: message.FromEdge, content: bytes = b"") -> None:
        """Send any frame (upstream, status, or an invalid one)."""
        assert self._socket is not None
        data = codec.encode(header, content)
        self.figures.bytes_up += len(data)
        await self._socket.send(data)

    def certify(self, context: ssl.SSLContext) -> None:
        """Use another certificate from the next connection on."""
        self._context = context

    async def drop(self) -> None:
        """Drop the connection without closing it."""
        if self._socket is not None:
            self._socket.transport.abort()

    # ---- conversation ----------------------------------------------------------------------------

    async def _converse(self, socket: ClientConnection) -> float:
        """Returns how long the hub asks the node to wait before it reconnects."""
        self._socket = socket
        self._to_ack = 0
        self._parts.clear()
        self.figures.connections += 1
        entries = [(stored.uid, stored.digest) for stored in self.held.values()]
        bits = digest.bits_for(len(entries))
        root = digest.Buckets.of(entries, bits).root
        await self.say(
            message.Hello(
                node=self.name, agent="bench", store_epoch=self.epoch, fence=self._fence, bits=bits,
                held=len(entries), root=root,
            )
        )  # fmt: skip
        beat = asyncio.create_task(self._keepalive())
        try:
            async with contextlib.AsyncExitStack() as stack:
                if self.behaviour == "flapping":
                    await stack.enter_async_context(asyncio.timeout(FLAPPING_SECONDS * (0.5 + self._random.random())))
                async for frame in socket:
                    assert isinstance(frame, bytes)
                    self.figures.bytes_down += len(frame)
                    header, content = codec.decode_from_hub(frame)
                    if isinstance(header, message.Refuse):
                        self.figures.refused[header.code] = self.figures.refused.get(header.code, 0) + 1
                        return header.retry_after or RETRY_SECONDS
                    await self._receive(header, content)
        finally:
            beat.cancel()
            if self._acking is not None:
                self._acking.cancel()
                self._acking = None
            for task in self._tasks:
                task.cancel()
        return 0.0

    async def _keepalive(self) -> None:
        while True:
            await asyncio.sleep(self.welcome.keepalive_seconds if self.welcome else KEEPALIVE_SECONDS)
            if self.welcome is not None:
                await self.say(message.Keepalive())

    async def _receive(self, header: message.FromHub, content: bytes) -> None:
        match header:
            case message.Welcome():
                self.welcome = header
                self._fence = max(self._fence, header.fence)
                self.connected.set()
            case message.Compare():
                sums = digest.Buckets.of(((s.uid, s.digest) for s in self.held.values()), header.bits)
                await self.say(message.BucketSums(parent_id=header.id, bits=header.bits), sums.encode())
            case message.ListBuckets():
                await self._list(header)
            case message.Update():
                if header.chunks:
                    self._parts[header.id] = (header, [])
                else:
                    await self._update(header, content)
            case message.Chunk():
                await self._chunk(header, content)
            case message.Delete():
                await self._delete(header)
            case message.Ack() | message.Nack():
                self.answers.append(header)
            case _:
                pass  # keepalive: being here is the answer

    async def _list(self, header: message.ListBuckets) -> None:
        asked = set(header.buckets)
        entries = [
            message.HeldEntry(stored.path, stored.uid, stored.digest, stored.version)
            for stored in self.held.values()
            if digest.bucket_of(stored.uid, header.bits) in asked
        ]
        step = 1000
        for start in range(0, max(1, len(entries)), step):
            last = start + step >= len(entries)
            part = msgspec.json.encode(entries[start : start + step])
            await self.say(message.Entries(parent_id=header.id, last=last), part)

    async def _chunk(self, header: message.Chunk, content: bytes) -> None:
        update, parts = self._parts[header.id]
        parts.append(content)
        if len(parts) < update.chunks:
            await self.say(message.Progress(parent_id=header.id, chunks=len(parts)))
        else:
            del self._parts[header.id]
            await self._update(update, b"".join(parts))

    async def _update(self, header: message.Update, content: bytes) -> None:
        self.figures.updates += 1
        if self.behaviour == "never-ack":
            return
        nack = self._refuse(header)
        if self.behaviour == "nack":
            nack = message.Nack(parent_id=header.id, code="refused", reason="it refuses everything", permanent=True)
        plain = codec.unpack(header.encoding, content)
        if nack is None and digest.content_digest(plain) != header.digest:
            nack = message.Nack(parent_id=header.id, code="digest_mismatch", reason="content does not fit its digest")
        if nack is not None:
            await self._flush()
            await self.say(nack)
            return
        key = resource.parse(header.resource).key
        before = self.held.get(key)
        if before is not None and before.uid == header.uid and before.digest == header.digest:
            self.figures.same += 1
        self.held[key] = SimulatedObject(header.resource, header.uid, header.digest, header.resource_version)
        if self._keep_content:
            self.contents[key] = plain
        self.figures.last_change = time.monotonic()
        self._on_update(header, self.figures.last_change)
        self._ack(header.id)

    async def _delete(self, header: message.Delete) -> None:
        self.figures.deletes += 1
        if self.behaviour == "never-ack":
            return
        key = resource.parse(header.resource).key
        stored = self.held.get(key)
        if stored is not None and stored.uid == header.uid:
            del self.held[key]
            self.contents.pop(key, None)
        self.figures.last_change = time.monotonic()
        self._ack(header.id)

    # ---- acks ------------------------------------------------------------------------------------

    def _ack(self, id: int) -> None:
        if self.behaviour == "slow":
            task = asyncio.create_task(self._ack_later(id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        self._to_ack = id
        if self._acking is None:
            self._acking = asyncio.create_task(self._ack_soon())

    async def _ack_soon(self) -> None:
        # Everything that is here already goes into one answer, as a group commit would make it.
        await asyncio.sleep(0)
        self._acking = None
        with contextlib.suppress(ConnectionClosed):
            await self._flush()

    async def _ack_later(self, id: int) -> None:
        await asyncio.sleep(SLOW_SECONDS)
        with contextlib.suppress(ConnectionClosed):
            await self.say(message.Ack(parent_id=id))

    async def _flush(self) -> None:
        id, self._to_ack = self._to_ack, 0
        if not id:
            return
        if self.behaviour == "lose-acks" and self._random.random() < LOST_SHARE:
            return
        # Cumulative only where nothing before it can have been refused.
        await self.say(message.Ack(parent_id=id, cumulative=True))
