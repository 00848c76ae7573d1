"""The gate, fed: what a start finds of the day, what is written before a batch leaves, what is said."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairlead_edge.io.data_plan import COUNT_MAX, NAME, SLOT_BYTES, DataPlan, DayFile, open_plan
from fairlead_edge.io.line_meter import Carried, LineMeter
from fairlead_edge.outbox.plan.gate import OPEN, DayCount
from fairlead_edge.settings import EdgeSettings

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


def plan_of(folder: Path, clocks: Clocks, bytes_per_day: int = 1000) -> tuple[DataPlan, Meter]:
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
    plan, meter = plan_of(tmp_path, Clocks(), bytes_per_day=0)
    assert plan.gate is OPEN
    meter.up = 500
    assert plan.status().used == 500
    plan.close()
    assert plan_of(tmp_path, Clocks(), bytes_per_day=0)[0].status().used == 500


def test_a_kill_forgets_no_batch_that_left(tmp_path: Path) -> None:
    """What is in flight was written before it left; the kernel may not have counted it when the process ends."""
    clocks = Clocks()
    plan, meter = plan_of(tmp_path, clocks)
    plan.update(0)
    meter.up = 100
    plan.update(0)
    plan.leaving(700)
    after, _ = plan_of(tmp_path, clocks)  # without ``close``
    after.update(0)
    assert after.status().used == 800
    assert after.gate.held(5, 100, 0.0) is not None and after.gate.held(5, 99, 0.0) is None


async def test_what_the_session_alone_carries_is_written_and_said_once(tmp_path: Path) -> None:
    clocks = Clocks()
    plan, meter = plan_of(tmp_path, clocks)
    meter.up = 950
    running = asyncio.create_task(plan.run())
    await asyncio.sleep(0)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    after, _ = plan_of(tmp_path, clocks)
    assert after.status().used == 950 and after.status().used_up


# ---- the day's count on disk: read again, torn, damaged --------------------------------------------------------------


FIRST, SECOND = DayCount("2026-11-23", 5.0, 100), DayCount("2026-11-23", 5.0, 200)


def test_what_was_written_last_is_read_again(tmp_path: Path) -> None:
    file = DayFile(tmp_path)
    assert file.read() is None
    file.write(FIRST)
    file.write(SECOND)
    file.flush()
    file.close()
    assert DayFile(tmp_path).read() == SECOND
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("spoiled", [b"", b"\0" * SLOT_BYTES, b"12345678 [1]", b"zz" * 100, b"\xff" * 100])
def test_a_torn_slot_leaves_the_other(tmp_path: Path, spoiled: bytes) -> None:
    file = DayFile(tmp_path)
    file.write(FIRST)  # into the second slot
    file.write(SECOND)
    content = bytearray((tmp_path / NAME).read_bytes())
    content[: len(spoiled)] = spoiled
    (tmp_path / NAME).write_bytes(content)
    assert DayFile(tmp_path).read() in ((FIRST, SECOND) if not spoiled else (FIRST,))
    (tmp_path / NAME).write_bytes(spoiled)
    assert DayFile(tmp_path).read() is None


def test_a_bit_anywhere_never_gives_another_count(tmp_path: Path) -> None:
    DayFile(tmp_path).write(FIRST)
    content = (tmp_path / NAME).read_bytes()
    for place in range(SLOT_BYTES, len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 4
        (tmp_path / NAME).write_bytes(damaged)
        assert DayFile(tmp_path).read() in (None, FIRST)


@pytest.mark.parametrize(
    "count",
    [DayCount("tomorrow", 5.0, 1), DayCount("", 5.0, 1), DayCount("2026-11-23", 5.0, -1),
     DayCount("2026-11-23", 5.0, COUNT_MAX + 1)],
)  # fmt: skip
def test_what_no_agent_counts_is_not_believed(tmp_path: Path, count: DayCount) -> None:
    file = DayFile(tmp_path)
    file.write(FIRST)
    file.write(count)
    assert file.read() == FIRST


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_where_it_cannot_be_opened_the_agent_runs_all_the_same(tmp_path: Path, kind: str) -> None:
    if kind == "folder":
        (tmp_path / NAME).mkdir()
    else:
        (tmp_path / NAME).symlink_to(tmp_path / "no" / "folder")
    file = DayFile(tmp_path)
    file.write(FIRST)
    file.flush()
    assert file.read() is None
    file.close()


def test_after_its_end_it_writes_into_no_file_that_got_its_number(tmp_path: Path) -> None:
    file = DayFile(tmp_path)
    file.close()
    with (tmp_path / "another").open("w+b") as another:
        file.write(FIRST)
        file.flush()
        assert another.read() == b"" and file.read() is None
    file.close()


# ---- the data plan of a settings file --------------------------------------------------------------------------------


AGENT: dict[str, Any] = {"node": "n", "hub_url": "ws://127.0.0.1:1", "data_dir": "/d", "security": "insecure"}


def test_limits_windows_and_the_zone_of_the_day_are_those_of_the_file(tmp_path: Path) -> None:
    window = {"priorities": [7], "from": "00:00", "to": "24:00", "timezone": "Asia/Tokyo"}
    link = {"bytes_per_day": 7, "bytes_per_second": 8, "timezone": "Pacific/Kiritimati"}
    settings = msgspec.convert({**AGENT, "link": link, "windows": [window]}, EdgeSettings)
    plan = open_plan(settings, tmp_path, clock=lambda: 0.0)
    limits = plan.status().limits
    assert (limits.bytes_per_day, limits.bytes_per_second, limits.priorities) == (7, 8, (7,))
    plan.update(0)
    assert plan.gate.held(7, 0, 0.0) is None and plan.gate.held(7, 7, 0.0) is not None


@pytest.mark.parametrize(("bytes_per_day", "logged"), [(0, 0), (50_000, 1), (50_000_000, 0)])
def test_a_budget_smaller_than_the_session_is_logged_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, bytes_per_day: int, logged: int
) -> None:
    settings = msgspec.convert({**AGENT, "link": {"bytes_per_day": bytes_per_day}}, EdgeSettings)
    open_plan(settings, tmp_path, clock=lambda: 0.0).close()
    assert [record.getMessage() for record in caplog.records].count("day_budget_small") == logged
