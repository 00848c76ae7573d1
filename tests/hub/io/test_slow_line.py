"""The line up over a thin line, real parts at both ends: alarms get through, and nothing is sent twice for slowness."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from tests.support.edges.line_up import line_up, route

ROUTES = {"alarm": route("alarm", priority=0), "log": route("log", priority=9)}

LOGS = 300
ON_THE_LINE = 150
"""Messages that may be in buffers of the sockets when the alarm is published: 100 KB and more."""


@pytest.mark.process
@pytest.mark.verify
@pytest.mark.parametrize("rate", [16_000])
async def test_an_alarm_gets_through_a_backlog_on_a_thin_line(tmp_path: Path, rate: float) -> None:
    """Half a minute of telemetry waits; each alarm overtakes it, and no byte goes twice."""
    dice = random.Random(5)
    async with line_up(tmp_path, ROUTES, bytes_per_second=rate, delay_seconds=0.05) as up:
        bodies = [dice.randbytes(600).hex() for _ in range(LOGS)]
        await asyncio.gather(*(up.publish("log", 1, body) for body in bodies))
        alarms: set[str] = set()
        for number in range(3):
            await asyncio.sleep(2)
            waiting = LOGS - len(await up.rows("telemetry")) + len(alarms)
            [alarm] = await up.publish("alarm", 1, number)

            async def arrived(alarm: str = alarm) -> bool:
                return any(row["id"] == alarm for row in await up.rows("telemetry"))

            await up.until(arrived)
            ids = [row["id"] for row in await up.rows("telemetry")]
            behind = LOGS - sum(each not in alarms for each in ids[: ids.index(alarm)])
            print(f"of {waiting} logs that waited {behind} came after the alarm")
            # Not the seconds: those also say how busy the machine is.  What the line had taken already stays before it.
            assert behind > 0 or waiting < ON_THE_LINE, f"{waiting} logs went before the alarm"
            alarms.add(alarm)
        await up.drained()
        status = await up.status()
        assert sum(queue["sent"] for queue in status["queues"]) == LOGS + 3
        assert up.counts.upstream_duplicates == 0
        print("bytes up:", up.line.up_bytes)
