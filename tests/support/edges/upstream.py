"""A hub at the other end of the pump's link that handles only upstream batches, and a router without a manifest."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from fairlead_edge.errors import LinkDown
from fairlead_edge.io.outbox.sqlite_outbox import SqliteOutbox
from fairlead_edge.io.outbox.upstream import UpstreamService
from fairlead_edge.outbox.delivery import UPSTREAM_POLICY
from fairlead_edge.outbox.queues import QueueId
from fairlead_edge.outbox.router import RouteTarget
from fairlead_edge.routes.message import RoutedMessage
from fairlead_wire import message
from fairlead_wire.delivery_policy import DeliveryPolicy
from fairlead_wire.io.spans import Spans
from fairlead_wire.link import codec

Answer = Callable[[str, list[message.UpstreamMessage]], message.Ack | message.Nack]


def target(
    endpoint: str = "iothub",
    priority: int = 2_000_000_000,
    ttl_seconds: float | None = 3600,
    topic: str = "default/telemetry",
) -> RouteTarget:
    return RouteTarget(
        endpoint=endpoint, queue=QueueId(endpoint, priority), priority=priority, ttl_seconds=ttl_seconds, topic=topic,
        routes=(),
    )  # fmt: skip


class PropertyRouter:
    """Routes by the message itself: properties ``priority``, ``ttl``, ``endpoint`` (several with commas)."""

    def hold(self, message: RoutedMessage, source: str) -> None:
        return None

    def route(self, message: RoutedMessage, source: str) -> list[RouteTarget]:
        said = message.properties
        if said.get("endpoint") == "nowhere":
            return []
        return [
            target(
                endpoint,
                int(said.get("priority") or 2_000_000_000),
                float(said["ttl"] or 0) if "ttl" in said else None,
                said.get("topic") or "default/telemetry",
            )
            for endpoint in (said.get("endpoint") or "iothub").split(",")
        ]


class FakeHub:
    """An ``UpstreamLink``: takes batches, records what it acknowledged, can be cut, and answers as the test says."""

    def __init__(self, *, window: int = 8) -> None:
        self._window = window
        self._listeners: list[Callable[[], None]] = []
        self._waiting: set[asyncio.Future[Any]] = set()
        self.up = False
        self.traceparents: list[str | None] = []
        """With each batch."""
        self.answer: Answer = lambda stream, messages: message.Ack(parent_id=1)
        self.batches: list[tuple[str, list[message.UpstreamMessage]]] = []
        """Every batch that arrived, in order."""
        self.stored: dict[tuple[int, str, int], message.UpstreamMessage] = {}
        """What was acknowledged, once per (epoch, stream, sequence): as messaging would hold it."""
        self.tables: list[message.TopicTables] | message.Nack | bytes = []
        """What it says of tables."""
        self.asked: list[list[str]] = []
        """Topics of each question."""
        self.hold = asyncio.Event()
        self.hold.set()
        """Clear it to leave batches unanswered."""

    @property
    def upstream_window(self) -> int:
        return self._window if self.up else 0

    def on_open(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    @property
    def answers_tables(self) -> bool:
        return self.up

    async def ask_tables(self, topics: list[str]) -> bytes | message.Nack:
        if not self.up:
            raise LinkDown("not connected")
        self.asked.append(topics)
        if isinstance(self.tables, message.Nack | bytes):
            return self.tables
        return msgspec.json.encode(self.tables)

    def connect(self) -> None:
        self.up = True
        for listener in self._listeners:
            listener()

    def cut(self) -> None:
        self.up = False
        for future in list(self._waiting):
            if not future.done():
                future.set_exception(LinkDown("cut"))

    async def send_upstream(
        self,
        stream: str,
        encoding: message.Encoding,
        content: bytes,
        *,
        topic: str = "",
        follows: bool = False,
        priority: int = 0,
        traceparent: str | None = None,
    ) -> message.Ack | message.Nack:
        if not self.up:
            raise LinkDown("not connected")
        messages = msgspec.json.decode(codec.unpack(encoding, content), type=list[message.UpstreamMessage])
        self.batches.append((stream, messages))
        self.traceparents.append(traceparent)
        if not self.hold.is_set():
            gone: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._waiting.add(gone)
            held = asyncio.create_task(self.hold.wait())
            try:
                await asyncio.wait([gone, held], return_when=asyncio.FIRST_COMPLETED)
                if gone.done():
                    gone.result()
            finally:
                self._waiting.discard(gone)
                held.cancel()
        answer = self.answer(stream, messages)
        if isinstance(answer, message.Ack):
            refused = {each.index for each in answer.refused}
            for index, each in enumerate(messages):
                if index not in refused:
                    first = self.stored.setdefault((each.epoch, stream, each.sequence), each)
                    assert first.id == each.id, "two messages under one name: the topic would drop the second"
        return answer

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition on what arrived."""
        await until(condition)


async def until(condition: Callable[[], Any], seconds: float = 100.0) -> None:
    """Wait for a condition over several objects, with a limit."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - no one event would do for all of them
            await asyncio.sleep(0.001)


def open_upstream(
    path: Path,
    hub: FakeHub,
    *,
    epoch: int = 1,
    max_bytes: int = 1 << 30,
    policy: DeliveryPolicy = UPSTREAM_POLICY,
    spans: Spans | None = None,
    modules_have_tokens: bool = False,
) -> UpstreamService:
    """An edge's upstream link with ``PropertyRouter``; run it with ``asyncio.create_task(upstream.run())``."""
    upstream = UpstreamService(
        outbox=SqliteOutbox(path, epoch=epoch, max_bytes=max_bytes),
        node="edge-1",
        link=hub,
        random=Random(epoch),
        cleanup_seconds=3600,
        check_entire_queue=True,
        policy=policy,
        spans=spans,
        modules_have_tokens=modules_have_tokens,
    )
    upstream.use_router(PropertyRouter())
    return upstream


@contextlib.asynccontextmanager
async def running_upstream(path: Path, hub: FakeHub, **more: Any) -> AsyncIterator[UpstreamService]:
    """The same, running; it is closed at the end."""
    upstream = open_upstream(path, hub, **more)
    task = asyncio.create_task(upstream.run())
    try:
        yield upstream
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await upstream.outbox.close()


def body(*messages: dict[str, Any]) -> bytes:
    """A publish request; each message gets a source and a body unless it has one."""
    return msgspec.json.encode(
        {
            "messages": [
                {"source": "/messages/modules/m/outputs/o", **({} if "bodyBase64" in each else {"body": 1}), **each}
                for each in messages
            ]
        }
    )
