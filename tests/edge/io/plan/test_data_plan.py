"""The gate, fed: what a start finds of the day, what is written before a batch leaves, what is said."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from pathlib import Path

from fairlead_edge.io.data_plan import DataPlan
from fairlead_edge.io.line_meter import Carried, LineMeter
from fairlead_edge.outbox.plan.gate import OPEN

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()


class Meter(LineMeter):
    def __init__(self) -> None:
        super().__init__()
        self.up = 0

    def carried(self) -> Carried:
        return Carried(up=self.up)


class Clocks:
    def __init__(self) -> None:
        self.now, self.wall = 0.0, NOON


def open_plan(folder: Path, clocks: Clocks, bytes_per_day: int = 1000) -> tuple[DataPlan, Meter]:
    plan = DataPlan(
        folder,
        clock=lambda: clocks.now,
        wall=lambda: clocks.wall,
        windows={},
        bytes_per_day=bytes_per_day,
        bytes_per_second=0,
        zone=UTC,
    )
    plan.meter = meter = Meter()
    return plan, meter


def test_without_limits_the_pump_is_asked_nothing_and_the_day_is_counted_for_people(tmp_path: Path) -> None:
    plan, meter = open_plan(tmp_path, Clocks(), bytes_per_day=0)
    assert plan.gate is OPEN
    meter.up = 500
    assert plan.status().used == 500
    plan.close()
    assert open_plan(tmp_path, Clocks(), bytes_per_day=0)[0].status().used == 500


def test_a_kill_forgets_no_batch_that_left(tmp_path: Path) -> None:
    """What is in flight was written before it left; the kernel may not have counted it when the process ends."""
    clocks = Clocks()
    plan, meter = open_plan(tmp_path, clocks)
    plan.look(0)
    meter.up = 100
    plan.look(0)
    plan.leaving(700)
    after, _ = open_plan(tmp_path, clocks)  # without ``close``
    after.look(0)
    assert after.status().used == 800
    assert after.gate.held(5, 100, 0.0) is not None and after.gate.held(5, 99, 0.0) is None


def test_a_folder_of_before_begins_at_nothing(tmp_path: Path) -> None:
    plan, _ = open_plan(tmp_path, Clocks())
    assert plan.status().used == 0 and not plan.status().used_up


async def test_what_the_session_alone_carries_is_written_and_said_once(tmp_path: Path) -> None:
    clocks = Clocks()
    plan, meter = open_plan(tmp_path, clocks)
    meter.up = 950
    running = asyncio.create_task(plan.run())
    await asyncio.sleep(0)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    after, _ = open_plan(tmp_path, clocks)
    assert after.status().used == 950 and after.status().used_up
