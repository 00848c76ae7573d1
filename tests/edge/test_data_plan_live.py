"""A line with a data plan, as a SIM card has: the program behind a thin line whose bytes are counted by a proxy."""

from __future__ import annotations

import asyncio
import random
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.support.edges.line_up import LineUp, line_up, route

ROUTES = {"alarm": route("alarm", priority=0), "log": route("log", priority=9), "rest": route("rest", priority=5)}
BYTES_PER_DAY = 60_000
LARGEST_BATCH = 16_000
"""On this line a batch has less: by so much the count after a kill may be above what was carried."""


def far_from_midnight() -> str:
    """A time zone in which it is noon: the day must not end while a test runs."""
    east = 12 - datetime.now(UTC).hour
    return "Etc/UTC" if not east else f"Etc/GMT{-east:+d}"


async def plan(up: LineUp) -> dict[str, Any]:
    found: dict[str, Any] = (await up.status())["link"]["plan"]
    return found


@pytest.mark.process
@pytest.mark.verify
async def test_a_budget_is_kept_over_kill_9_and_counted_as_a_proxy_counts(tmp_path: Path) -> None:
    """Far more waits than the day may carry; the agent is killed in the middle; alarms have the last tenth."""
    dice = random.Random(7)
    settings = {"LINK_BYTES_PER_DAY": str(BYTES_PER_DAY), "LINK_TIMEZONE": far_from_midnight()}
    async with line_up(tmp_path, ROUTES, bytes_per_second=20_000, delay_seconds=0.01, **settings) as up:
        for _ in range(10):
            await up.publish("log", 20, dice.randbytes(600).hex())

        async def under_way() -> bool:
            # More than is asked for after the kill: what the session alone carried since the last tick may be missing.
            return bool((await plan(up))["bytesToday"] > BYTES_PER_DAY / 3)

        await up.until(under_way)
        await asyncio.to_thread(up.agent.kill)
        await asyncio.to_thread(up.agent.start)
        assert (await plan(up))["bytesToday"] > BYTES_PER_DAY / 4

        async def used_up() -> bool:
            return bool((await plan(up))["usedUp"])

        await up.until(used_up)
        [log] = [queue for queue in (await up.status())["queues"] if queue["priority"] == 9]
        assert log["length"] > 0 and log["expired"] == 0
        [alarm] = await up.publish("alarm", 1)

        async def arrived() -> bool:
            return any(row["id"] == alarm for row in await up.rows("telemetry"))

        await up.until(arrived)
        found = await up.status()
        [held] = [queue["held"] for queue in found["queues"] if queue["priority"] == 9]
        assert held["by"] == "day" and found["link"]["state"] == "connected"

        async def said() -> bool:
            return "day_budget_used_up" in [each["event"] for each in up.agent.events()]

        await up.until(said)
        carried, counted = up.line.up_bytes + up.line.down_bytes, (await plan(up))["bytesToday"]
        print("carried", carried, "counted", counted)
        # TCP's content is counted by the proxy, packets' headers by the agent alone.
        assert carried <= counted <= 1.5 * carried + LARGEST_BATCH
        assert carried <= BYTES_PER_DAY


@pytest.mark.process
async def test_what_the_agent_counts_is_what_a_proxy_counts_to_the_byte(tmp_path: Path) -> None:
    """TCP's content, both ways, also of a connection that has ended; headers of packets come on top."""
    async with line_up(tmp_path, ROUTES) as up:
        for _ in range(3):
            await up.publish("log", 50, "x" * 100)
            await up.drained()

        async def same() -> bool:
            if up.line.connections > 1:  # a busy machine broke it: of what was on its way one side alone knows
                return True
            # A frame may be between the two counts: one of these times there is none.
            _, text = await up.ask("GET", "/metrics")
            parts = re.findall(r'link_carried_bytes_total\{part="(?:up|down)"\} (\d+)', text)
            return sum(map(int, parts)) == up.line.up_bytes + up.line.down_bytes

        await up.until(same)


@pytest.mark.process
async def test_messages_share_batches_where_the_rate_holds_them(tmp_path: Path) -> None:
    """One a batch they would cost more than twice as much: headers, frames, and nothing to pack them with."""
    async with line_up(tmp_path, ROUTES, LINK_BYTES_PER_SECOND="10000") as up:
        dice = random.Random(3)
        for _ in range(4):
            await up.publish("log", 50, dice.randbytes(40).hex() + "x" * 200)
        await up.drained()
        _, text = await up.ask("GET", "/metrics")
        found = {name: int(count) for name, count in re.findall(r'pump_events_total\{event="(\w+)"\} (\d+)', text)}
        assert found["acked"] == 200 and found["batches"] <= 100, found


@pytest.mark.process
@pytest.mark.parametrize("unusable", ["folder", "dangling link"])
async def test_without_its_count_on_disk_the_agent_runs_and_says_so(tmp_path: Path, unusable: str) -> None:
    async with line_up(tmp_path, ROUTES) as up:
        await asyncio.to_thread(up.agent.kill)
        file = tmp_path / "data" / "link.day"
        file.unlink()
        if unusable == "folder":
            file.mkdir()
        else:
            file.symlink_to(tmp_path / "no" / "such")
        await asyncio.to_thread(up.agent.start)
        [said] = [each for each in up.agent.events() if each["event"] == "day_file_unusable"]
        assert "remove it" in said["remedy"] and said["path"].endswith("link.day")
        [log] = await up.publish("log", 1)

        async def arrived() -> bool:
            return any(row["id"] == log for row in await up.rows("telemetry"))

        await up.until(arrived)


@pytest.mark.process
@pytest.mark.verify
async def test_a_live_lane_loses_and_doubles_nothing_over_kill_9_and_without_its_setting(tmp_path: Path) -> None:
    """Two streams of one priority, each in order; what lies in the lane leaves also when lanes are off again."""
    dice, accepted = random.Random(11), list[str]()
    async with line_up(tmp_path, ROUTES, bytes_per_second=5_000, PUMP_LIVE_FIRST_SHARE="0.5") as up:

        async def publish(*bodies: str) -> None:
            each = {"source": "/messages/modules/m/outputs/o", "properties": {"kind": "log"}}
            status, answer = await up.ask(
                "POST", "/v1/messages", {"messages": [{**each, "body": one} for one in bodies]}
            )
            assert status == 200, answer
            accepted.extend(result["id"] for result in answer["results"])

        async def lane_waits() -> bool:
            await publish(dice.randbytes(30).hex())
            return any(queue["lane"] == "live" and queue["length"] for queue in (await up.status())["queues"])

        await publish(*(dice.randbytes(600).hex() for _ in range(130)))  # sixteen seconds of this line
        await up.until(lane_waits)
        await asyncio.to_thread(up.agent.kill)
        await asyncio.to_thread(up.agent.start)
        await publish("after", "a", "kill")
        await asyncio.to_thread(up.agent.kill)
        up.agent.set(PUMP_LIVE_FIRST_SHARE="0")
        await asyncio.to_thread(up.agent.start)
        await publish("after", "a", "kill")
        await up.drained()
        rows = await up.rows("telemetry")
    assert sorted(row["id"] for row in rows) == sorted(accepted)
    turn = {id: number for number, id in enumerate(accepted)}
    turns = dict[str, list[int]]()
    for row in rows:
        turns.setdefault(row["stream"], []).append(turn[row["id"]])
    assert set(turns) == {"iothub_Pri9", "iothub_Pri1000000009"}
    assert all(found == sorted(found) for found in turns.values()), turns
    assert {row["priority"] for row in rows} == {9}
