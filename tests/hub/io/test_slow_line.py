"""The line up over a thin line, real parts at both ends: alarms get through, and nothing is sent twice for slowness."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from tests.support.edges.line_up import line_up, route

ROUTES = {"alarm": route("alarm", priority=0), "log": route("log", priority=9)}


@pytest.mark.process
@pytest.mark.verify
@pytest.mark.parametrize("rate", [16_000])
async def test_an_alarm_gets_through_a_backlog_on_a_thin_line(tmp_path: Path, rate: float) -> None:
    """Half a minute of telemetry waits; each alarm is in the topic within a few seconds, and no byte goes twice."""
    dice = random.Random(5)
    async with line_up(tmp_path, ROUTES, bytes_per_second=rate, delay_seconds=0.05) as up:
        loop = asyncio.get_running_loop()
        bodies = [dice.randbytes(600).hex() for _ in range(300)]
        await asyncio.gather(*(up.publish("log", 1, body) for body in bodies))
        waits = []
        for number in range(3):
            await asyncio.sleep(2)
            began = loop.time()
            [alarm] = await up.publish("alarm", 1, number)

            async def arrived(alarm: str = alarm) -> bool:
                return any(row["id"] == alarm for row in await up.rows("telemetry"))

            await up.until(arrived)
            waits.append(loop.time() - began)
        print("seconds until an alarm arrived:", [round(wait, 2) for wait in waits])
        assert max(waits) < 15, waits  # behind the backlog it would be twenty and more
        await up.drained()
        status = await up.status()
        assert sum(queue["sent"] for queue in status["queues"]) == 303
        assert up.counts.upstream_duplicates == 0
        print("bytes up:", up.line.up_bytes)
