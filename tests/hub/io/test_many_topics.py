"""Several topics in one priority, and messages that expire between others, on the real line: nothing stands still."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.edges.line_up import LineUp, line_up, route

from fairlead_messaging.server import producers

pytestmark = pytest.mark.process

COUNT = 4_000


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it were 140,000 messages: what a topic knows of this node is spread over many rows."""
    monkeypatch.setattr(producers, "PAGE_INTERVALS_MAX", 16)


async def in_turns(up: LineUp, *kinds: str) -> list[str]:
    """Messages of these kinds in turns, in one request; their ids."""
    messages = [
        {"source": "/messages/modules/m/outputs/o", "properties": {"kind": kinds[n % len(kinds)]}, "body": n}
        for n in range(COUNT)
    ]
    status, answer = await up.ask("POST", "/v1/messages", {"messages": messages})
    assert status == 200, answer
    return [result["id"] for result in answer["results"]]


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["id"] for row in rows]


async def test_two_topics_in_turns_at_one_priority(tmp_path: Path) -> None:
    """Every second number is one the topic never sees; all arrive, once, in order."""
    routes = {
        "one": route("one", priority=5, topic="default/one"),
        "two": route("two", priority=5, topic="default/two"),
    }
    async with line_up(tmp_path, routes) as up:
        sent = await in_turns(up, "one", "two")
        await up.drained()
        assert ids(await up.rows("one")) == sent[::2]
        assert ids(await up.rows("two")) == sent[1::2]
        assert all(queue["stalled"] is None for queue in (await up.status())["queues"])


async def test_short_and_long_lives_in_turns_through_an_outage(tmp_path: Path) -> None:
    """Every second message expires while the link is away; the others arrive, and the books say which."""
    routes = {
        "short": route("short", priority=5, timeToLiveSecs=1),
        "long": route("long", priority=5, timeToLiveSecs=3600),
    }
    async with line_up(tmp_path, routes) as up:
        up.line.close()
        sent = await in_turns(up, "short", "long")
        await asyncio.sleep(1.2)
        await up.line.open()
        await up.drained()
        assert set(ids(await up.rows("telemetry"))) == set(sent[1::2])
        [queue] = (await up.status())["queues"]
        assert (queue["sent"], queue["expired"], queue["accepted"]) == (COUNT // 2, COUNT // 2, COUNT)
