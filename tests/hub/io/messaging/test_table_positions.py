"""What a hub tells nodes of tables, from a real messaging service's readers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from tests.support.edges.upstream import until
from tests.support.hubs.hub_core import Core, Edge
from tests.support.topics.messaging import Topics, serving

from fairlead_hub.io.messaging import table_positions
from fairlead_hub.io.messaging.table_positions import TablePositions
from fairlead_messaging.api.requests import Producer, TableNote
from fairlead_messaging.api.responses import Reader, Table
from fairlead_messaging.client.errors import Unreachable
from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_wire import message
from fairlead_wire.errors import Malformed

TELEMETRY = "default/telemetry"


class Door:
    """Before the service: counts the questions, holds them back, and fails when it shall."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self.asked: list[str] = []
        self.open = asyncio.Event()
        self.open.set()
        self.fails = False

    async def readers(self, namespace: str, name: str) -> list[Reader]:
        self.asked.append(f"{namespace}/{name}")
        await self.open.wait()
        if self.fails:
            raise Unreachable("no process listens")
        return await self._client.readers(namespace, name)


class Line:
    """Nodes that ask, and what they are answered."""

    def __init__(self, core: Core, desk: TablePositions, door: Door, topics: Topics, client: AsyncClient) -> None:
        self.core, self.desk, self.door, self.topics, self.client = core, desk, door, topics, client

    def node(self, name: str) -> Edge:
        edge = self.core.connect(name)
        edge.sent()
        return edge

    async def ask(self, edge: Edge, *topics: str) -> Any:
        self.desk.accept(edge.ref, message.AskTables(id=1, topics=list(topics)))
        return await self.answer(edge)

    async def answer(self, edge: Edge) -> Any:
        """The topics, or the nack."""
        answers: list[tuple[message.FromHub, bytes]] = []

        def has_come() -> bool:
            self.core.settle()
            frames = self.core.frames(edge.ref)
            answers.extend(frame for frame in frames if isinstance(frame[0], message.Tables | message.Nack))
            return bool(answers)

        await until(has_come)
        await until(lambda: edge.ref not in self.desk._answering)
        [(header, content)] = answers
        if isinstance(header, message.Nack):
            return header
        return msgspec.json.decode(content, type=list[message.TopicTables])

    async def note(self, reader: str, position: str, *, batch: int = 1, start: str = "") -> None:
        note = TableNote(name="/tables/t", application="fairlead:q", start=start, batch=batch, version=2, rowless=0)
        await self.client.note_reader("default", "telemetry", reader, position=position, generation=1, table=note)


@contextlib.asynccontextmanager
async def lines() -> AsyncIterator[Line]:
    async with serving() as topics, AsyncClient(topics.url) as client:
        await topics.create("telemetry")
        core = Core("edge-1", "edge-2")
        door = Door(client)
        yield Line(core, TablePositions(core.hub, door), door, topics, client)


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    async with lines() as opened:
        yield opened


async def test_a_node_is_told_of_the_tables_of_its_topics(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers that fill no table are passed over, and topics that are none of the node's."""
    monkeypatch.setattr(table_positions, "FRESH_SECONDS", 0.0)
    edge = line.node("edge-1")
    assert await line.ask(edge, TELEMETRY) == []
    placed = await line.client.publish(
        "default", "telemetry", [b"a", b"b"], producer=Producer(id="p", epoch=1, sequences=[0, 1])
    )
    await line.note("telemetry", placed.newest, batch=7)
    await line.client.note_reader("default", "telemetry", "person", position=placed.newest, generation=1)
    [told] = await line.ask(edge, TELEMETRY, "shop/orders")
    assert (told.topic, told.service, told.generation) == (TELEMETRY, placed.service, placed.generation)
    [table] = told.readers
    assert (table.reader, table.table, table.batch, table.version, table.rowless) == (
        "telemetry", "/tables/t", 7, 2, 0,
    )  # fmt: skip
    assert table.position[:20] == placed.newest[:20] and table.start == ""


async def test_notes_of_one_application_go_on_from_each_other(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one covered stays covered; another table begins where it says."""
    monkeypatch.setattr(table_positions, "FRESH_SECONDS", 0.0)
    edge, places = line.node("edge-1"), [f"{number:020x}" + "0" * 20 for number in range(1, 4)]
    await line.note("t", places[1], start=places[0])
    await line.note("t", places[2], start=places[1])
    [[table]] = [told.readers for told in await line.ask(edge, TELEMETRY)]
    assert (table.start, table.position) == (places[0], places[2])
    other = TableNote(name="/tables/t", application="fairlead:other", start=places[1])
    await line.client.note_reader("default", "telemetry", "t", position=places[2], generation=1, table=other)
    [[table]] = [told.readers for told in await line.ask(edge, TELEMETRY)]
    assert table.start == places[1]


async def test_messaging_is_asked_once_for_many_nodes(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_positions, "FRESH_SECONDS", 3600.0)
    first, second = line.node("edge-1"), line.node("edge-2")
    line.door.open.clear()
    for edge in (first, second):
        line.desk.accept(edge.ref, message.AskTables(id=1, topics=[TELEMETRY, TELEMETRY]))
    with pytest.raises(Malformed):
        line.desk.accept(first.ref, message.AskTables(id=2, topics=[TELEMETRY]))
    await until(lambda: line.door.asked)
    line.desk.forget(first.ref)
    line.door.open.set()
    assert await line.answer(second) == []
    assert await line.ask(second, TELEMETRY) == []
    assert line.door.asked == [TELEMETRY]


async def test_what_cannot_be_said_now_is_a_nack(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messaging away, too many nodes, no messaging at all; it is asked again once it is there."""
    monkeypatch.setattr(table_positions, "FRESH_SECONDS", 0.0)
    edge = line.node("edge-1")
    line.door.fails = True
    found = await line.ask(edge, TELEMETRY)
    assert (found.code, found.retry_after) == ("messaging_unavailable", table_positions.RETRY_SECONDS)
    with monkeypatch.context() as patched:
        patched.setattr(table_positions, "WAITING_NODES_MAX", 0)
        assert (await line.ask(edge, TELEMETRY)).code == "busy"
    line.door.fails = False
    await line.client.delete_topic("default", "telemetry")
    assert await line.ask(edge, TELEMETRY) == []
    line.desk = TablePositions(line.core.hub, None)
    assert (await line.ask(edge, TELEMETRY)).code == "no_messaging"


def test_a_frame_holds_as_many_tables_as_readers_were_noted_last() -> None:
    """Who may consume a topic names readers as it likes."""
    readers = [
        Reader(
            name=f"r{number}", position="", updated_ms=number, lag_messages=0, lag_seconds=0.0, service="s",
            generation=1, table=Table(name="t" * 1024, start=""),
        )
        for number in range(100)
    ]  # fmt: skip
    told = table_positions.tables_of("n/t", readers)
    assert told is not None and [each.reader for each in told.readers] == [f"r{number}" for number in range(68, 100)]
    assert table_positions.tables_of("n/t", []) is None
