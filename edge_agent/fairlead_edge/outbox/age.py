"""How old a message is, whatever happened to the clocks meanwhile (architecture decision 16).

The store has a clock of its own: seconds since the store was first opened.  Within a boot it runs with the
machine's boot time (which counts suspended time, and which is never set).  Across a reboot it adds what the wall
clock says passed between the last stamp on disk and the boot, and never less than nothing:

    ──stamp──stamp──✗ power lost            boot ──────── now
            └── max(0, wall at boot - wall of stamp) ──┘└─ boot time ─┘

So a wall clock that jumps while we run changes nothing, and one that starts in 1970 kills and revives nothing:
at worst the time without power is not counted.  Stamps are written every ``STAMP_SECONDS``, which is also the
most a reboot can take back.
"""

from __future__ import annotations

from typing import Final

import msgspec

STAMP_SECONDS: Final = 10.0
SECONDS_MAX: Final = 1e11
"""Three thousand years: no clock of ours reads more."""


class ClockReading(msgspec.Struct, frozen=True, kw_only=True):
    """What the machine's clocks said at one moment: which boot, seconds since it, and Unix seconds."""

    boot_id: str
    boot_seconds: float
    wall_seconds: float


class Stamp(msgspec.Struct, frozen=True, kw_only=True):
    """The store's clock at one reading, as it lies on disk."""

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
        # A clone or a namespace may show less boot time than the stamp has: then no time has passed.
        return stamp.age_seconds + max(0.0, opened.boot_seconds - stamp.boot_seconds)
    wall_at_boot = opened.wall_seconds - opened.boot_seconds
    return stamp.age_seconds + max(0.0, wall_at_boot - stamp.wall_seconds) + opened.boot_seconds
