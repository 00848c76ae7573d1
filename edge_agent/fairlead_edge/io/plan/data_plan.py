"""What a line costs, kept to: the gate that the pump asks, fed with clocks and with what the kernel counted.

meter ─bytes─▶ gate ─held?─▶ pump         look: before each decision
                └─ count ──▶ day_file      leaving: before a batch leaves, with the batch in it
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Final

import msgspec

from fairlead_edge.io.plan.day_file import DayFile
from fairlead_edge.io.plan.line_meter import LineMeter
from fairlead_edge.outbox.plan import status
from fairlead_edge.outbox.plan.day import DayCount
from fairlead_edge.outbox.plan.gate import OPEN, PlanGate, PumpGate
from fairlead_edge.outbox.plan.status import LineStatus
from fairlead_edge.outbox.plan.windows import HourWindow
from fairlead_wire.io import logs

TICK_SECONDS: Final = 1.0
"""How often the count is written where there is a budget: of what the session alone carried, no more is forgotten."""
IDLE_TICK_SECONDS: Final = 60.0
"""Where there is none: for people, who want to know what a day costs."""
FLUSH_SECONDS: Final = 60.0

_log = logs.get("edge.plan")


class DataPlan:
    """One per agent.  ``clock`` is the store's, ``wall`` a Unix time; limits of 0 do not limit."""

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], float],
        windows: Mapping[int, Sequence[HourWindow]],
        bytes_per_day: int,
        bytes_per_second: int,
        zone: tzinfo,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.meter = LineMeter()
        self._file = DayFile(folder)
        self._clock, self._wall = clock, wall
        self._limits = status.PlanLimits(bytes_per_day, bytes_per_second, tuple(sorted(windows)))
        self._gate = PlanGate(
            windows=windows,
            bytes_per_day=bytes_per_day,
            bytes_per_second=bytes_per_second,
            zone=zone,
            count=self._file.read(),
        )
        self._written: DayCount | None = None
        self._was_used_up = False
        self._in_flight = 0

    @property
    def gate(self) -> PumpGate:
        """What the pump asks."""
        return self._gate if self._limits.any else OPEN

    def look(self, in_flight: int) -> None:
        """Before the pump decides; ``in_flight``: bytes of batches that are unanswered."""
        self._in_flight = in_flight
        if self._limits.any:
            self._read()

    def leaving(self, in_flight: int) -> None:
        """A batch leaves now; ``in_flight`` with it."""
        self._in_flight = in_flight
        if self._limits.bytes_per_day:
            self._write()

    def status(self) -> LineStatus:
        """As it is now."""
        self._read()
        carried = msgspec.structs.asdict(self.meter.carried())
        return status.of(self._gate, carried, self._limits, self._clock())

    async def run(self) -> None:
        """Until cancelled: counts what the session alone carries, and says once that the budget is used up."""
        seconds = TICK_SECONDS if self._limits.bytes_per_day else IDLE_TICK_SECONDS
        flushed = self._clock()
        while True:
            self._read()
            if self._gate.count != self._written:
                self._write()
            self._say()
            if self._limits.bytes_per_day and self._clock() - flushed >= FLUSH_SECONDS:
                flushed = self._clock()
                await asyncio.to_thread(self._file.flush)
            await asyncio.sleep(seconds)

    def close(self) -> None:
        """With all that was counted."""
        self.meter.end()
        self._in_flight = 0
        self._read()
        self._write()
        self._file.close()

    def _read(self) -> None:
        self._gate.look(now=self._clock(), wall=self._wall(), carried=self.meter.carried().total)

    def _write(self) -> None:
        """What is in flight counts as carried: the kernel sends it, also when this process has ended."""
        count = self._gate.count
        if count is not None:
            self._written = count
            self._file.write(count.plus(self._in_flight))

    def _say(self) -> None:
        is_used_up, count, ends = self._gate.is_used_up, self._gate.count, self._gate.day_ends
        if is_used_up and not self._was_used_up and count is not None and ends is not None:
            _log.warning(
                "day_budget_used_up",
                date=count.date,
                bytes=count.used,
                bytes_per_day=self._limits.bytes_per_day,
                next_day_in_seconds=round(ends - self._clock()),
                remedy="messages wait and go on by themselves the next day; raise [link] bytes_per_day to send now",
            )
        elif self._was_used_up and not is_used_up:
            _log.info("day_budget_renewed", date=count.date if count is not None else "")
        self._was_used_up = is_used_up
