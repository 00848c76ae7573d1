"""Agents and links one version apart, in both directions: real programs of both versions.

    agent A ◀─ link ─▶ hub B      A stores an object, routes and a message that it cannot send
    agent B ◀─ link ─▶ hub A      B opens A's folder, serves the object, sends the message

with A the older and B the newer version (an upgrade), and the other way round (a rollback).
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support import older_version
from tests.support.edges.edge_agent import EdgeAgent
from tests.support.older_version import ROOT
from tests.support.processes import free_ports, start, wait_until

from fairlead_edge.io.outbox.sqlite_outbox import SqliteOutbox
from fairlead_edge.outbox import envelope
from fairlead_edge.outbox.outbox import Entry, Reference
from fairlead_edge.outbox.queue_id import QueueId, live_lane
from fairlead_edge.routes.sink import UPSTREAM

pytestmark = [pytest.mark.process, pytest.mark.verify]

HUB = Path(__file__).parent / "hub_program.py"
SECONDS = 120.0
MESSAGES = {"messages": [{"source": "/messages/modules/m/outputs/o", "body": {"t": 21}}]}


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {"older": older_version.unpack(tmp_path_factory.mktemp("older")), "newer": ROOT}


class Hub:
    """A hub program of one tree, and what it said."""

    def __init__(self, tree: Path, port: int, log: Path, *more: str) -> None:
        self._log = log
        command = [sys.executable, str(HUB), str(port), *more]
        self.running = start("hub", command, log, environ=older_version.environ(tree))
        [found] = self.wait("tree")
        assert Path(found).is_relative_to(tree), "this hub is of another version"

    def said(self, fact: str) -> list[Any]:
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [json.loads(line)[fact] for line in lines if line.startswith("{") and fact in json.loads(line)]

    def wait(self, fact: str) -> list[Any]:
        def known() -> list[Any]:
            self.running.require_alive()
            return self.said(fact)

        return wait_until(f"the hub says {fact}", known, seconds=SECONDS, describe=self.running.tail)


@contextmanager
def hub(*arguments: Any) -> Iterator[Hub]:
    running = Hub(*arguments)
    try:
        yield running
    finally:
        running.running.kill()


@contextmanager
def agent(tree: Path, folder: Path, port: int) -> Iterator[EdgeAgent]:
    """Stopped properly at the end, as at an upgrade."""
    found = EdgeAgent(folder, f"ws://127.0.0.1:{port}")
    found.program, found.extra = older_version.command(), older_version.environ(tree)
    found.start()
    try:
        yield found
        assert found.stop() == 0
    finally:
        if found.running is not None and found.running.alive:
            found.kill()


async def _leave_in_live_lane(folder: Path) -> str:
    """A message as ``[pump] live_first_share`` puts it into the store; its id."""
    box = SqliteOutbox(folder / "data" / "outbox.db", epoch=1, max_bytes=1 << 30, node="edge-1")
    lane_message = envelope.Stored(
        id="in-the-lane",
        source="/messages/modules/m/outputs/o",
        enqueued_at="2026-11-23T00:00:00Z",
        properties={},
        system_properties={},
        body=msgspec.Raw(b"1"),
    )
    try:
        content = envelope.stored(lane_message)
        lane = QueueId(UPSTREAM, live_lane(1))
        await box.append([Entry("in-the-lane", content, (Reference(lane, 86400.0, "telemetry"),))], now=box.now())
    finally:
        await box.close()
    return "in-the-lane"


@pytest.mark.parametrize(("first", "second"), [("older", "newer"), ("newer", "older")])
def test_link_and_stores_of_versions_one_apart(first: str, second: str, trees: dict[str, Path], tmp_path: Path) -> None:
    [port] = free_ports(1)
    with agent(trees[first], tmp_path, port) as edge:
        with hub(trees[second], port, tmp_path / "hub-1.log", "send") as running:
            assert running.wait("stored") == [2]
            wait_until("routes", lambda: edge.ask("POST", "/v1/messages", MESSAGES)[0] == 200, seconds=SECONDS)
            running.wait("upstream")
        # Without a hub: it stays in the store.
        status, body = edge.ask("POST", "/v1/messages", MESSAGES)
        assert status == 200
        unsent = body["results"][0]["id"]
    sent = {unsent}

    if first == "newer":
        sent = {unsent, asyncio.run(_leave_in_live_lane(tmp_path))}
    with hub(trees[first], port, tmp_path / "hub-2.log") as running, agent(trees[second], tmp_path, port) as edge:
        status, found = edge.get("/api/v1/namespaces/shop/configmaps/prices")
        assert (status, found["data"]) == (200, {"value": "1"})
        assert running.wait("held")[0] == 2
        wait_until(
            "what was left is sent",
            lambda: all(any(id in each for each in running.said("upstream")) for id in sent),
            seconds=SECONDS,
        )
