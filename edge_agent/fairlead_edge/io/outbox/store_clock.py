"""Reads the machine's clocks for ``age.AgeClock``; the only place at the edge that knows how a boot is named."""

from __future__ import annotations

import datetime
import time
from pathlib import Path

from fairlead_edge.outbox.age import AgeClock, ClockReading, Stamp

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def read() -> ClockReading:
    """Boot id, seconds since boot (suspended time counts) and wall clock, now."""
    return ClockReading(boot_id=_boot_id(), boot_seconds=boot_seconds(), wall_seconds=time.time())


def boot_seconds() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def open_clock(stamp: Stamp | None) -> AgeClock:
    """The store's clock, continuing from the stamp found on disk."""
    return AgeClock(stamp, read())


def _boot_id() -> str:
    return _BOOT_ID.read_text().strip()


def timestamp() -> str:
    """The current time as RFC 3339 text in UTC, to the millisecond."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
