"""What the pump asks before it sends a batch: may this priority be sent now, and how large may its batch be?

    held(priority)   None if it may; else until when it is held, and why
      window   it is outside the hours of the priority
      day      the day's budget is used up, except for the part reserved for the most urgent priority
      rate     the link's bytes per second are used up

Held messages wait, and their time to live continues.  Nothing but messages is held.
Pure: ``update`` gets the clocks and the bytes that the link carried.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Final, Protocol

import msgspec

from fairlead_edge.outbox.plan.windows import Hours, HourWindow

BURST_SECONDS: Final = 1.0
"""The most that may be sent at once after a pause."""
BATCH_SECONDS: Final = 0.25
"""After a wait, send as much as the rate allows in this time: messages then share headers and compression, and an alarm
waits no longer than this."""
ROUNDING: Final = 1e-3
"""Fractions of a byte below this are rounding errors."""


class Rate:
    """A limit in bytes per second: a token bucket, full at the start, which one batch may overdraw.

    ``bytes_per_second`` is positive; times are seconds and never decrease.
    """

    def __init__(self, bytes_per_second: int) -> None:
        self._rate = bytes_per_second
        self._room = bytes_per_second * BURST_SECONDS
        self._at = 0.0

    def due(self, now: float) -> float:
        """When something may be sent; at once if this is not after ``now``."""
        self._fill(now)
        missing = max(1.0, self._rate * BATCH_SECONDS) - self._room
        return now if missing < ROUNDING else now + missing / self._rate

    def room(self, now: float) -> int:
        """How many bytes may be sent now."""
        self._fill(now)
        return max(0, int(self._room))

    def sent(self, size: int, now: float) -> None:
        """``size`` bytes were sent, which may be more than ``room`` allowed."""
        self._fill(now)
        self._room -= size

    def _fill(self, now: float) -> None:
        if now > self._at:
            self._room = min(self._rate * BURST_SECONDS, self._room + (now - self._at) * self._rate)
        self._at = now


DAY_SECONDS_MAX: Final = 26 * 3600.0
"""Longer than any day, even one of 25 hours."""


class DayCount(msgspec.Struct, frozen=True):
    """The bytes that the link carried since the day began.

    A day is a calendar day in its zone, by the wall clock.  That clock may jump: a later date begins a new day, an
    earlier one does not, and the count continues.  A day also ends after ``DAY_SECONDS_MAX`` on the store's clock,
    which never jumps; otherwise a clock that was years ahead for a moment would block messages for years.

    ``date`` is like ``2026-11-23``; ``began`` is on the store's clock; ``used`` is in bytes.
    """

    date: str
    began: float
    used: int = 0

    def plus(self, size: int) -> DayCount:
        return DayCount(self.date, self.began, self.used + size)


def on(count: DayCount | None, *, now: float, wall: float, zone: tzinfo) -> DayCount:
    """The current count: this one, or that of a new day.  ``now`` is on the store's clock, ``wall`` is Unix time."""
    today = datetime.fromtimestamp(wall, zone).date().isoformat()
    if count is None:
        return DayCount(today, now)
    if now < count.began:  # the count is from another store, whose clock differs
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


KEPT_SHARE: Final = 0.1
"""The part of the day's budget that is reserved for the session itself and for messages of priority ``URGENT``."""
URGENT: Final = 0
"""The most urgent priority that a route may have."""
POLL_SECONDS: Final = 60.0
"""How often to read the wall clock, which may be set at any time."""


class Why(enum.StrEnum):
    """Why messages of a priority wait."""

    WINDOW = "window"
    DAY = "day"
    RATE = "rate"


class HeldUntil(msgspec.Struct, frozen=True):
    """Messages of a priority may not leave before ``until`` (the store's clock)."""

    why: Why
    until: float


class PumpGate(Protocol):
    """What the pump needs of the data plan."""

    def held(self, priority: int, in_flight: int, now: float) -> HeldUntil | None:
        """None if messages of this priority may be sent.  ``in_flight`` is the number of unanswered bytes."""

    def room(self, priority: int, in_flight: int, now: float) -> int | None:
        """The most bytes that a batch of this priority should have on the link; None if there is no limit."""

    def sent(self, size: int, now: float) -> None:
        """A batch of ``size`` bytes is sent."""


class _Open:
    def held(self, priority: int, in_flight: int, now: float) -> HeldUntil | None:
        return None

    def room(self, priority: int, in_flight: int, now: float) -> int | None:
        return None

    def sent(self, size: int, now: float) -> None:
        pass


OPEN: Final[PumpGate] = _Open()
"""Nothing is held back."""


class PlanGate:
    """Limits by windows, a budget for the day and a rate; 0 means no limit.  The day begins at midnight in ``zone``."""

    def __init__(
        self,
        *,
        windows: Mapping[int, Sequence[HourWindow]] | None = None,
        bytes_per_day: int = 0,
        bytes_per_second: int = 0,
        zone: tzinfo = UTC,
        count: DayCount | None = None,
    ) -> None:
        self.bytes_per_day = bytes_per_day
        self._hours = Hours(windows or {})
        self._zone = zone
        self._rate = Rate(bytes_per_second) if bytes_per_second else None
        self._count = count
        self._carried = 0
        self._now, self._wall = 0.0, 0.0

    def update(self, *, now: float, wall: float, carried: int) -> None:
        """Update the clocks, and the bytes that the link carried in both directions since the start."""
        self._now, self._wall = now, wall
        counted = on(self._count, now=now, wall=wall, zone=self._zone)
        self._count = counted.plus(carried - self._carried)
        self._carried = carried

    @property
    def count(self) -> DayCount | None:
        """The bytes of the current day; None before the first ``update``."""
        return self._count

    @property
    def day_ends(self) -> float | None:
        """When a new budget begins, on the store's clock."""
        if self._count is None:
            return None
        return ends(self._count, now=self._now, wall=self._wall, zone=self._zone)

    @property
    def is_used_up(self) -> bool:
        """Whether messages, except perhaps the most urgent, wait for the next day."""
        return bool(self.bytes_per_day) and self._used >= self._day_limit(URGENT + 1)

    def held(self, priority: int, in_flight: int, now: float) -> HeldUntil | None:
        closed_until = self._hours.closed_until(priority, self._wall)
        if closed_until is not None:
            return HeldUntil(Why.WINDOW, now + min(POLL_SECONDS, max(0.0, closed_until - self._wall)))
        if self.bytes_per_day and self._used + in_flight >= self._day_limit(priority):
            ends = self.day_ends
            return HeldUntil(Why.DAY, min(now + POLL_SECONDS, max(now, now if ends is None else ends)))
        if self._rate is not None:
            due = self._rate.due(now)
            if due > now:
                return HeldUntil(Why.RATE, due)
        return None

    def room(self, priority: int, in_flight: int, now: float) -> int | None:
        rooms: list[int] = []
        if self.bytes_per_day:
            rooms.append(self._day_limit(priority) - self._used - in_flight)
        if self._rate is not None:
            rooms.append(self._rate.room(now))
        return max(1, min(rooms)) if rooms else None

    def sent(self, size: int, now: float) -> None:
        if self._rate is not None:
            self._rate.sent(size, now)

    def opens(self) -> dict[int, float]:
        """By priority that is outside its hours: when they begin again, in Unix time."""
        found = ((each, self._hours.closed_until(each, self._wall)) for each in self._hours.priorities)
        return {priority: until for priority, until in found if until is not None}

    @property
    def _used(self) -> int:
        return 0 if self._count is None else self._count.used

    def _day_limit(self, priority: int) -> int:
        return self.bytes_per_day if priority <= URGENT else int(self.bytes_per_day * (1 - KEPT_SHARE))
