"""In the agent: it delivers, closes, switches; it gives up, and it is cancelled."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairlead_edge.errors import Moving
from fairlead_edge.io.moving import mover
from fairlead_edge.io.moving.files import MoveFiles, MovePlan
from fairlead_edge.io.moving.mover import Mover, Switched
from fairlead_edge.outbox.plan.gate import HeldUntil, Why
from fairlead_wire.errors import Temporary

PLAN = MovePlan(node="edge-1", since="wss://old:1", until="wss://new:1", deadline_seconds=1000.0)


class Publisher:
    """Remembers whether its door is open."""

    def __init__(self) -> None:
        self.in_work = 0
        self.closed: Temporary | None = None

    def close(self, reason: Temporary) -> None:
        self.closed = reason

    def open(self) -> None:
        self.closed = None


class Queue(msgspec.Struct):
    endpoint: str
    length: int
    priority: int = 1


class Agent:
    """What a mover sees of one; ``looked`` is set at each look."""

    def __init__(self) -> None:
        self.publisher = Publisher()
        self.pump = self
        self.held_back: dict[tuple[str, int], HeldUntil] = {}
        self.waiting = 5
        self.state: Any = type("State", (), {"state": "connected"})
        self.looks = 0

    def held(self) -> dict[tuple[str, int], HeldUntil]:
        return self.held_back

    async def status(self) -> Any:
        self.looks += 1
        queues = [Queue("iothub", self.waiting), Queue("edge-1/m/in", 9)]
        return type("Status", (), {"queues": queues})

    async def looked(self) -> None:
        """Twice more: what was changed before is seen by a whole look."""
        until = self.looks + 2
        while self.looks < until:  # noqa: ASYNC110 - the mover polls
            await asyncio.sleep(0)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MoveFiles:
    monkeypatch.setattr(mover, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(mover, "LOOK_SECONDS", 0.0)
    found = MoveFiles(tmp_path)
    found.make_folder()
    return found


async def test_it_delivers_closes_and_switches(files: MoveFiles) -> None:
    """Messages for modules of this node stay with it, and delay nothing."""
    agent: Any = Agent()
    running = asyncio.create_task(Mover(files, link=agent, upstream=agent, clock=lambda: 0.0).run())
    files.ask(PLAN)
    async with asyncio.timeout(60):
        await agent.looked()
        assert isinstance(agent.publisher.closed, Moving)
        agent.publisher.in_work, agent.waiting = 1, 0
        await agent.looked()
        assert files.switched() is None
        agent.publisher.in_work = 0
        with pytest.raises(Switched):
            await running
    assert files.switched() == PLAN and agent.publisher.closed is not None


async def test_given_up_or_cancelled_it_is_open_again(files: MoveFiles) -> None:
    agent: Any = Agent()
    now = [0.0]
    running = asyncio.create_task(Mover(files, link=agent, upstream=agent, clock=lambda: now[0]).run())
    async with asyncio.timeout(60):
        files.ask(PLAN)
        await agent.looked()
        now[0] = 2000.0
        while files.plan() is not None:  # noqa: ASYNC110 - a file
            await asyncio.sleep(0)
        progress = files.progress()
        assert progress is not None and (progress.step, progress.waiting) == ("gave up", 5)
        assert agent.publisher.closed is None
        files.ask(PLAN)
        await agent.looked()
        assert agent.publisher.closed is not None
        files.cancel()
        while agent.publisher.closed is not None:  # noqa: ASYNC110 - the mover polls
            await asyncio.sleep(0)
    running.cancel()


async def test_nothing_is_refused_while_the_data_plan_holds_everything(files: MoveFiles) -> None:
    """And the plan is named, not the hub; what another priority may send goes on, with the door closed."""
    agent: Any = Agent()
    agent.held_back = {("iothub", 1): HeldUntil(Why.DAY, 9.0)}
    running = asyncio.create_task(Mover(files, link=agent, upstream=agent, clock=lambda: 0.0).run())
    files.ask(PLAN)
    async with asyncio.timeout(60):
        await agent.looked()
        await agent.looked()
        progress = files.progress()
        assert agent.publisher.closed is None and progress is not None
        assert (progress.step, progress.held) == ("deliver", "[link] bytes_per_day is used up")
        agent.held_back = {("iothub", 2): HeldUntil(Why.DAY, 9.0)}
        await agent.looked()
        assert agent.publisher.closed is not None
    running.cancel()


async def test_files_that_cannot_be_read_close_nothing(files: MoveFiles) -> None:
    agent: Any = Agent()
    (files.folder / "plan.json").write_text("[")
    running = asyncio.create_task(Mover(files, link=agent, upstream=agent).run())
    await asyncio.sleep(0.01)
    assert not running.done() and agent.publisher.closed is None
    running.cancel()
