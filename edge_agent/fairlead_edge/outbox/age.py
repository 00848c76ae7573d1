"""How old a message is, even if the machine's clocks were set or the power failed (architecture decision 16).

The store has a clock of its own: seconds since the store was first opened.  Within a boot it runs with the
machine's boot time (which counts suspended time, and which is never set).  Across a reboot it adds what the wall
clock says passed between the last stamp on disk and the boot, and never less than nothing:

    ──stamp──stamp──✗ power lost            boot ──────── now
            └── max(0, wall at boot - wall of stamp) ──┘└─ boot time ─┘

So a wall clock that jumps while the agent runs changes nothing, and one that starts in 1970 neither expires messages
nor brings them back: at worst the time without power is not counted.  A reboot can set this clock back by at most
``STAMP_SECONDS``, the interval between stamps.
"""

from __future__ import annotations

from typing import Final

import msgspec

STAMP_SECONDS: Final = 10.0
SECONDS_MAX: Final = 1e11
"""Three thousand years; a larger reading is damage."""


class ClockReading(msgspec.Struct, frozen=True, kw_only=True):
    """The machine's clocks at one moment: the id of the boot, seconds since it, and Unix time."""

    boot_id: str
    boot_seconds: float
    wall_seconds: float


class Stamp(msgspec.Struct, frozen=True, kw_only=True):
    """The store's clock at one reading, as written to disk."""

    boot_id: str
    boot_seconds: float
    wall_seconds: float
    age_seconds: float


class AgeClock:
    """The store's clock, from the stamp found on disk (None: a new store) and a reading taken at opening."""

    def __init__(self, stamp: Stamp | None, opened: ClockReading) -> None:
        self._boot_id = opened.boot_id
        self._opened_boot_seconds = opened.boot_seconds
        self._age_at_opening = _age_at(stamp, opened)

    def now(self, boot_seconds: float) -> float:
        """Seconds of the store's life; never falls while the store is open."""
        return self._age_at_opening + max(0.0, boot_seconds - self._opened_boot_seconds)

    def stamp(self, reading: ClockReading) -> Stamp:
        """What to write to disk now."""
        return Stamp(
            boot_id=self._boot_id,
            boot_seconds=reading.boot_seconds,
            wall_seconds=reading.wall_seconds,
            age_seconds=self.now(reading.boot_seconds),
        )


def _age_at(stamp: Stamp | None, opened: ClockReading) -> float:
    if stamp is None:
        return 0.0
    if stamp.boot_id == opened.boot_id:
        # In a clone or a time namespace the boot time may be lower than the stamp's: count no time at all.
        return stamp.age_seconds + max(0.0, opened.boot_seconds - stamp.boot_seconds)
    wall_at_boot = opened.wall_seconds - opened.boot_seconds
    return stamp.age_seconds + max(0.0, wall_at_boot - stamp.wall_seconds) + opened.boot_seconds
