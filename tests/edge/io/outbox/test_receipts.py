"""Receipts of a running line up: while messages wait, leave, and are read into tables, also without a link."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.edges.upstream import FakeHub, body, running_upstream, until
from tests.support.topics.topic_model import TopicModel

from fairlead_edge.io.outbox import receipts as receipts_module
from fairlead_edge.io.outbox.upstream import UpstreamService
from fairlead_edge.outbox.receipts import receipt
from fairlead_edge.waiting_places import WaitingPlaces
from fairlead_wire import message
from fairlead_wire.errors import Temporary


class Line:
    """An edge whose hub and topic are models."""

    def __init__(self, upstream: UpstreamService, hub: FakeHub, model: TopicModel) -> None:
        self.upstream, self.hub, self.model = upstream, hub, model

    async def publish(self, count: int = 1, **properties: str) -> list[str]:
        answer = await self.upstream.publisher.publish(body(*[{"properties": properties}] * count))
        return [each["id"] for each in msgspec.json.decode(answer.body)["results"]]

    async def ask(self, id: str, **more: Any) -> dict[str, Any] | None:
        return await self.upstream.receipts.ask(bytes.fromhex(id), **{"author": None, **more})

    async def state(self, id: str, **more: Any) -> str:
        found = await self.ask(id, **more)
        return "unknown" if found is None else str(found["state"])


@contextlib.asynccontextmanager
async def running(path: Path, hub: FakeHub, model: TopicModel, epoch: int = 1) -> AsyncIterator[Line]:
    hub.answer = model.answer
    async with running_upstream(path, hub, epoch=epoch) as upstream:
        yield Line(upstream, hub, model)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions follow each other at once."""
    monkeypatch.setattr(receipts_module, "ASK_SECONDS", 0.01)
    monkeypatch.setattr(receipts_module, "AWAY_SECONDS", 0.01)


@pytest.fixture
async def line(tmp_path: Path) -> AsyncIterator[Line]:
    async with running(tmp_path / "outbox.db", FakeHub(), TopicModel()) as opened:
        yield opened


async def test_a_message_from_acceptance_to_its_table(line: Line) -> None:
    first, second = await line.publish(2)
    assert await line.state(second) == "accepted"
    line.hub.connect()
    assert await line.state(second, wait_seconds=60.0, until="in_topic") == "in_topic"
    found = await line.ask(second)
    assert found is not None
    assert (found["in_topic"]["position"], found["in_topic"]["exact"]) == (line.model.position_of(second), True)
    line.model.read(1)
    line.hub.tables = [line.model.tables()]
    assert await line.state(first, wait_seconds=60.0) == "in_table"
    assert await line.state(second) == "in_topic"
    line.model.read()
    line.hub.tables = [line.model.tables(batch=2)]
    found = await line.ask(second, wait_seconds=60.0)
    assert found is not None
    assert (found["in_table"]["table"], found["in_table"]["batch"], found["in_table"]["row"]) == (
        "/tables/telemetry", 2, True,
    )  # fmt: skip
    [said] = line.upstream.receipts.latency.quantiles()
    assert said.measured >= 1


async def test_it_is_known_without_a_link_and_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts_module, "KEEP_SECONDS", 0.0)
    hub, model = FakeHub(), TopicModel()
    async with running(tmp_path / "outbox.db", hub, model) as line:
        [id] = await line.publish()
        hub.connect()
        await until(lambda: model.ids)
        model.read()
        hub.tables = [model.tables()]
        assert await line.state(id, wait_seconds=60.0) == "in_table"
        await until(lambda: not line.upstream.receipts._unkept)
    hub.cut()
    async with running(tmp_path / "outbox.db", hub, model, epoch=2) as line:
        await until(lambda: line.upstream.receipts._topics)
        found = await line.ask(id)
    assert found is not None and (found["state"], found["online"]) == ("in_table", False)
    assert found["as_of"] is not None


async def test_a_batch_that_was_known_before_stands_at_the_newest_or_before(line: Line) -> None:
    """Its answer was lost: messaging has it, but does not report its position."""
    line.hub.hold.clear()
    line.hub.connect()
    ids = await line.publish(3)
    await until(lambda: line.hub.batches)
    stream, batch = line.hub.batches[0]
    line.model.answer(stream, batch)
    line.hub.hold.set()
    assert await line.state(ids[-1], wait_seconds=60.0, until="in_topic") == "in_topic"
    found = await line.ask(ids[0])
    assert found is not None
    assert found["in_topic"]["exact"] is (len(batch) < 3 and batch[0].id != ids[0])
    assert found["in_topic"]["position"] >= line.model.position_of(ids[0])


async def test_a_topic_made_anew_claims_no_message_of_before(line: Line) -> None:
    line.hub.connect()
    [id] = await line.publish()
    await line.state(id, wait_seconds=60.0, until="in_topic")
    line.model.make_anew()
    line.model.read(100)
    line.hub.tables = [line.model.tables()]
    asked = len(line.hub.asked)
    await line.ask(id)
    await until(lambda: len(line.hub.asked) > asked + 1)
    found = await line.ask(id)
    assert found is not None and (found["state"], found["in_table"]) == ("in_topic", None)
    assert found["deliveries"][0]["note"] == receipt.TOPIC_RECREATED


async def test_a_hub_that_says_nonsense_or_not_now_costs_nothing_but_the_answer(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead_edge.outbox.receipts.latency.ASK_SECONDS_MAX", 0.01)
    line.hub.connect()
    [id] = await line.publish()
    for said in (b"[", b'[{"topic":1}]', message.Nack(parent_id=1, code="busy", reason="", retry_after=0.01)):
        line.hub.tables = said
        line.upstream.receipts.counters.clear()
        await line.state(id, wait_seconds=0.0)
        await until(lambda: line.upstream.receipts.counters["not_told"])
    line.hub.tables = [message.TopicTables(topic="other/topic", service="s", generation=1)]
    assert await line.state(id, wait_seconds=60.0, until="in_topic") == "in_topic"
    line.model.read()
    line.hub.tables = [line.model.tables()]
    assert await line.state(id, wait_seconds=60.0) == "in_table"


async def test_a_table_that_went_back_is_counted(line: Line) -> None:
    line.hub.connect()
    [id] = await line.publish()
    await until(lambda: line.model.ids)
    line.model.read()
    line.hub.tables = [line.model.tables()]
    assert await line.state(id, wait_seconds=60.0) == "in_table"
    line.model.read(0)
    line.hub.tables = [line.model.tables()]
    await line.ask(id)
    await until(lambda: line.upstream.receipts.counters["went_back"] == 1)
    assert await line.state(id) == "in_topic"


async def test_only_so_many_wait_at_once(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line.upstream.receipts, "_places", WaitingPlaces(2, has_names=False))
    [id] = await line.publish()
    waiting = [asyncio.create_task(line.state(id, wait_seconds=60.0, until="in_topic")) for _ in range(2)]
    await until(lambda: len(line.upstream.receipts._places) == 2)
    with pytest.raises(Temporary):
        await line.ask(id)
    line.hub.connect()
    assert await asyncio.gather(*waiting) == ["in_topic", "in_topic"]
    assert not line.upstream.receipts._awaited


async def test_nothing_is_known_of_what_no_route_wanted(line: Line) -> None:
    [id] = await line.publish(endpoint="nowhere")
    assert await line.state(id) == "unknown"
    assert await line.state("f" * 32, wait_seconds=60.0) == "unknown", "it does not wait for what was never accepted"
    assert await line.upstream.receipts.remembers_since() is None


async def test_a_message_for_a_module_waits_until_it_is_taken(line: Line) -> None:
    [id] = await line.publish(endpoint="edge-1/m/in")
    found = await line.ask(id)
    assert found is not None and (found["state"], found["in_topic"]) == ("accepted", None)
