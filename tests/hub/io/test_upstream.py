"""Upstream batches into the real messaging service, and the answers the edge gets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.support.hub_core import Core, Edge
from tests.support.messaging_service import MessagingService

from fairlead_hub.io.upstream import UpstreamDesk
from fairlead_messaging.io.client import MessagingClient
from fairlead_wire import message
from fairlead_wire.errors import Malformed

TOPIC = ("default", "telemetry")


class Line:
    """An open session and the desk behind it."""

    def __init__(self, client: MessagingClient | None, window: int = 4) -> None:
        self.core = Core("edge-1")
        self.edge: Edge = self.core.connect()
        self.edge.sent()
        self.client = client
        self.desk = UpstreamDesk(self.core.hub, client, window=window)
        self._id = 0

    def say(self, *sequences: int, topic: str = "default/telemetry", stream: str = "s", body: bytes = b"1") -> int:
        self._id += 1
        batch = [
            message.UpstreamMessage(
                id=f"m{n}", topic=topic, epoch=7, sequence=n, source="/messages", priority=0,
                enqueued_at="2026-11-20T00:00:00Z", body=msgspec.Raw(body),
            )
            for n in sequences
        ]  # fmt: skip
        header = message.Upstream(id=self._id, stream=stream)
        self.desk.accept(self.edge.session, header, msgspec.json.encode(batch))
        return self._id

    async def answers(self, count: int) -> list[message.Ack | message.Nack]:
        found: list[message.Ack | message.Nack] = []
        ends = time.monotonic() + 20
        while len(found) < count:
            assert time.monotonic() < ends, f"only {found}"
            await asyncio.sleep(0.01)
            frames = self.edge.session.frames(self.core.now, 100)
            found += [header for header, _ in frames if isinstance(header, message.Ack | message.Nack)]
        return found


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[MessagingService]:
    running = await asyncio.to_thread(MessagingService(tmp_path, store="memory").start)
    yield running
    await asyncio.to_thread(running.kill)


@pytest.fixture
async def line(service: MessagingService) -> AsyncIterator[Line]:
    async with MessagingClient(service.url) as client:
        yield Line(client)


async def stored(line: Line, topic: tuple[str, str] = TOPIC) -> list[int]:
    assert line.client is not None
    page = await line.client.poll(*topic)
    return [msgspec.json.decode(one.payload)["sequence"] for one in page.messages]


async def test_an_ack_means_stored(line: Line) -> None:
    """In the topic, stamped with the node; streams go beside each other, one stream in order."""
    await line.desk.ensure_topics()
    ids = [line.say(1, 2), line.say(3), line.say(9, stream="other")]
    answers = await line.answers(3)
    assert sorted(one.parent_id for one in answers) == ids and all(isinstance(one, message.Ack) for one in answers)
    assert [n for n in await stored(line) if n < 9] == [1, 2, 3]


async def test_the_same_again_is_stored_once(line: Line) -> None:
    """A batch whose answer was lost comes again: acknowledged, counted, not doubled."""
    await line.desk.ensure_topics()
    line.say(1, 2)
    line.say(1, 2, 3)
    await line.answers(2)
    assert await stored(line) == [1, 2, 3]
    assert line.core.hub.counts.upstream_duplicates == 2


async def test_a_topic_never_granted_is_refused_alone(line: Line) -> None:
    """The edge dead-letters it with the reason; nothing reaches the topic."""
    line.say(1, topic="secret/plans")
    (answer,) = await line.answers(1)
    assert isinstance(answer, message.Ack)
    assert [(one.index, one.code) for one in answer.refused] == [(0, "topic_not_granted")]


async def test_a_missing_topic_is_created_and_tried_again(line: Line) -> None:
    """Never a reason to drop: a temporary nack, and the same again is stored."""
    line.say(1)
    (nack,) = await line.answers(1)
    assert isinstance(nack, message.Nack) and not nack.permanent
    line.say(1)
    (ack,) = await line.answers(1)
    assert isinstance(ack, message.Ack) and await stored(line) == [1]


async def test_messaging_down_is_not_now(service: MessagingService, line: Line) -> None:
    """The edge keeps its messages and comes back."""
    await asyncio.to_thread(service.kill)
    line.say(1)
    (nack,) = await line.answers(1)
    assert isinstance(nack, message.Nack) and not nack.permanent and nack.retry_after
    assert nack.code == "messaging_unavailable"


async def test_without_messaging_it_is_not_now() -> None:
    line = Line(None)
    line.say(1)
    (nack,) = await line.answers(1)
    assert isinstance(nack, message.Nack) and nack.code == "no_messaging" and nack.retry_after


async def test_more_than_the_window_breaks_the_protocol() -> None:
    """An edge that ignores its window is cut off, not queued for."""
    line = Line(None, window=2)
    with pytest.raises(Malformed, match="more than 2 upstream batches"):
        for number in range(4):
            line.say(number)


async def test_nonsense_ends_the_session(line: Line) -> None:
    """A batch that is none: refused with the reason."""
    header = message.Upstream(id=1, stream="s")
    line.desk.accept(line.edge.session, header, b"{")
    ends = time.monotonic() + 10
    while line.edge.session.closing is None:
        assert time.monotonic() < ends
        await asyncio.sleep(0.01)
    assert line.edge.session.closing.code == "protocol"
