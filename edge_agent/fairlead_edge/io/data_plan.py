"""The data plan of the line: feeds the pump's gate with clocks and with the bytes the kernel counted.

meter ─bytes─▶ gate ─held?─▶ pump         look: before each decision
                └─ count ──▶ DayFile      leaving: before a batch leaves, including that batch
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Final

import msgspec

from fairlead_edge.io.line_meter import LineMeter
from fairlead_edge.outbox.plan import status
from fairlead_edge.outbox.plan import windows as plan_settings
from fairlead_edge.outbox.plan.gate import OPEN, DayCount, PlanGate, PumpGate
from fairlead_edge.outbox.plan.status import LineStatus
from fairlead_edge.outbox.plan.windows import HourWindow
from fairlead_edge.settings import EdgeSettings
from fairlead_wire.io import logs

NAME: Final = "link.day"
SLOT_BYTES: Final = 256

COUNT_MAX: Final = 1 << 53
"""A larger count is a damaged one."""

_decoder: Final = msgspec.json.Decoder(tuple[str, float, int])


class DayFile:
    """``link.day``: the day's count of the line's bytes, in two slots written alternately.

    It is written before each batch leaves and includes that batch, so a crash forgets no message; it is flushed from
    time to time, so a power cut forgets a minute at most.  If one slot is torn, the other is used.  Disk errors are
    ignored.  If the file cannot be opened, the agent logs this once and counts from its start.
    """

    def __init__(self, folder: Path) -> None:
        self._turn = 0
        self._file: int | None = None
        try:
            self._file = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            _log.error(
                "day_file_unusable",
                path=str(folder / NAME),
                reason=error.strerror,
                remedy="remove it or give it to the agent's user, and restart; until then each start counts from 0",
            )

    def read(self) -> DayCount | None:
        """The last count; None: nothing was counted yet, or it cannot be read."""
        found = [each for slot in range(2) if (each := self._slot(slot)) is not None]
        return max(found, key=lambda each: (each.date, each.began, each.used), default=None)

    def write(self, count: DayCount) -> None:
        """Write ``count`` so that it survives a crash of the process, but not yet a power cut."""
        self._turn ^= 1
        content = msgspec.json.encode((count.date, count.began, count.used))
        line = b"%08x %b\n" % (zlib.crc32(content), content)
        if self._file is None:
            return
        with contextlib.suppress(OSError):
            os.pwrite(self._file, line.ljust(SLOT_BYTES), self._turn * SLOT_BYTES)

    def flush(self) -> None:
        """Make the last count survive a power cut; blocks for the disk."""
        if self._file is None:
            return
        with contextlib.suppress(OSError):
            os.fdatasync(self._file)

    def close(self) -> None:
        file, self._file = self._file, None  # the descriptor's number will be reused
        if file is not None:
            os.close(file)

    def _slot(self, number: int) -> DayCount | None:
        if self._file is None:
            return None
        try:
            crc, content = os.pread(self._file, SLOT_BYTES, number * SLOT_BYTES).split(b" ", 1)
            content = content.rstrip()
            if int(crc, 16) != zlib.crc32(content):
                return None
            date, began, used = _decoder.decode(content)
            datetime.date.fromisoformat(date)
        except (OSError, ValueError):
            return None
        return DayCount(date, began, used) if 0 <= used <= COUNT_MAX else None


TICK_SECONDS: Final = 1.0
"""How often to write the count if there is a budget; a crash forgets at most this much of the session's overhead."""
IDLE_TICK_SECONDS: Final = 60.0
"""How often without a budget, when the count is only for information."""
FLUSH_SECONDS: Final = 60.0

IDLE_SESSION_BYTES: Final = 2_500_000
"""About what the session itself carries in a day, with TLS."""

_log = logs.get("edge.plan")


class DataPlan:
    """The agent's data plan.  ``clock`` is the store's clock, ``wall`` a Unix time; a limit of 0 means no limit."""

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
        """The gate that the pump asks before it sends."""
        return self._gate if self._limits.any else OPEN

    def update(self, in_flight: int) -> None:
        """Update the gate before the pump decides; ``in_flight``: bytes of unanswered batches."""
        self._in_flight = in_flight
        if self._limits.any:
            self._read()

    def leaving(self, in_flight: int) -> None:
        """A batch leaves now; ``in_flight`` includes it."""
        self._in_flight = in_flight
        if self._limits.bytes_per_day:
            self._write()

    def status(self) -> LineStatus:
        """The current status."""
        self._read()
        carried = msgspec.structs.asdict(self.meter.carried())
        return status.of(self._gate, carried, self._limits, self._clock())

    async def run(self) -> None:
        """Count the session's overhead and log once when the budget is used up; runs until cancelled."""
        seconds = TICK_SECONDS if self._limits.bytes_per_day else IDLE_TICK_SECONDS
        flushed = self._clock()
        while True:
            self._read()
            if self._gate.count != self._written:
                self._write()
            self._log_budget()
            if self._limits.bytes_per_day and self._clock() - flushed >= FLUSH_SECONDS:
                flushed = self._clock()
                await asyncio.to_thread(self._file.flush)
            await asyncio.sleep(seconds)

    def close(self) -> None:
        """Write the final count and close the file."""
        self.meter.end()
        self._in_flight = 0
        self._read()
        self._write()
        self._file.close()

    def _read(self) -> None:
        self._gate.update(now=self._clock(), wall=self._wall(), carried=self.meter.carried().total)

    def _write(self) -> None:
        """Bytes in flight count as carried: the kernel sends them even after this process has ended."""
        count = self._gate.count
        if count is not None:
            self._written = count
            self._file.write(count.plus(self._in_flight))

    def _log_budget(self) -> None:
        is_used_up, count, ends = self._gate.is_used_up, self._gate.count, self._gate.day_ends
        if is_used_up and not self._was_used_up and count is not None and ends is not None:
            _log.warning(
                "day_budget_used_up",
                date=count.date,
                bytes=count.used,
                bytes_per_day=self._limits.bytes_per_day,
                next_day_in_seconds=round(ends - self._clock()),
                remedy="messages wait until the next day; raise [link] bytes_per_day to send them now",
            )
        elif self._was_used_up and not is_used_up:
            _log.info("day_budget_renewed", date=count.date if count is not None else "")
        self._was_used_up = is_used_up


def open_plan(settings: EdgeSettings, folder: Path, *, clock: Callable[[], float]) -> DataPlan:
    """The data plan of the settings.  The day's count is kept in ``folder``; ``clock`` is the store's."""
    if 0 < settings.link.bytes_per_day < IDLE_SESSION_BYTES:
        _log.warning(
            "day_budget_small",
            bytes_per_day=settings.link.bytes_per_day,
            reason=f"an idle session alone uses about {IDLE_SESSION_BYTES} bytes a day, so nearly no message is sent",
            remedy="raise [link] bytes_per_day, or leave it out for no limit",
        )
    return DataPlan(
        folder,
        clock=clock,
        windows=plan_settings.windows_by_priority(settings.windows),
        bytes_per_day=settings.link.bytes_per_day,
        bytes_per_second=settings.link.bytes_per_second,
        zone=plan_settings.zone(settings.link.timezone) or UTC,
    )
