"""The bytes of the line since the day began, and when the next day begins.

A day is that of a place's calendar, as the wall clock shows it.  A clock may jump: a later date begins a new day; an
earlier one does not, the count goes on.  So that a clock that was years ahead for a moment does not close the budget
for years, a day also ends after ``DAY_SECONDS_MAX`` on the store's clock, which never jumps.

Pure: ``now`` is the store's clock, ``wall`` a Unix time.
"""

from __future__ import annotations

from datetime import datetime, time, timedelta, tzinfo
from typing import Final

import msgspec

DAY_SECONDS_MAX: Final = 26 * 3600.0
"""Longer than any day, also than one of 25 hours."""


class DayCount(msgspec.Struct, frozen=True):
    """``date`` as ``2026-11-23``; ``began`` is of the store's clock; ``used`` are bytes."""

    date: str
    began: float
    used: int = 0

    def plus(self, size: int) -> DayCount:
        return DayCount(self.date, self.began, self.used + size)


def on(count: DayCount | None, *, now: float, wall: float, zone: tzinfo) -> DayCount:
    """The count that is in force: this one, or that of a new day."""
    today = datetime.fromtimestamp(wall, zone).date().isoformat()
    if count is None:
        return DayCount(today, now)
    if now < count.began:  # another store, with a clock of its own
        count = DayCount(count.date, now, count.used)
    if today > count.date or now - count.began >= DAY_SECONDS_MAX:
        return DayCount(today, now)
    return count


def ends(count: DayCount, *, now: float, wall: float, zone: tzinfo) -> float:
    """When the next day begins, on the store's clock, if the wall clock does not jump."""
    shown = datetime.fromtimestamp(wall, zone)
    midnight = datetime.combine(shown.date() + timedelta(days=1), time(), zone)
    at_the_latest = count.began + DAY_SECONDS_MAX
    if shown.date().isoformat() < count.date:
        return at_the_latest
    return min(now + max(0.0, midnight.timestamp() - wall), at_the_latest)
