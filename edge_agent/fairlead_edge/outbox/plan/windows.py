"""In which hours messages of a priority may be sent: the ``[[windows]]`` and ``[link]`` settings and their clock.

A window is open while the local wall clock shows a time from ``begins`` up to ``ends``.  When the clock is set back, it
is open in both of the repeated hours; a time that the clock skips does not occur on that day.  A window that ends
before it begins spans midnight, and belongs to the day on which it begins.

Pure: instants are arguments (Unix seconds).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Annotated, Final, Literal
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from fairlead_wire.validation import mistakes, route_manifest
from fairlead_wire.validation.mistakes import Mistake, shown

MINUTES: Final = 24 * 60
EVERY_DAY: Final = frozenset(range(7))
LOOK_AHEAD: Final = timedelta(days=15)
"""A window of one weekday opens within eight days, or within fifteen when the first falls into an hour left out."""


SOON: Final = timedelta(days=2)
"""Nearly every change is found within this time; only otherwise is the rest of ``LOOK_AHEAD`` searched."""


class HourWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Minutes of the day, ``ends`` up to 1440; ``days`` by number, Monday is 0."""

    begins: int
    ends: int
    zone: tzinfo
    days: frozenset[int] = EVERY_DAY

    def is_open(self, instant: float) -> bool:
        shown = datetime.fromtimestamp(instant, self.zone)
        minute, day = shown.hour * 60 + shown.minute, shown.weekday()
        if self.begins < self.ends:
            return self.begins <= minute < self.ends and day in self.days
        return (minute >= self.begins and day in self.days) or (minute < self.ends and (day - 1) % 7 in self.days)


def is_open(windows: Iterable[HourWindow], instant: float) -> bool:
    """Whether any of the windows is open."""
    return any(window.is_open(instant) for window in windows)


def next_change(windows: Sequence[HourWindow], instant: float) -> float:
    """The first instant after this one at which ``is_open`` changes; if there is none within ``LOOK_AHEAD``, its
    end."""
    now = is_open(windows, instant)
    for ahead in (SOON, LOOK_AHEAD):
        end = instant + ahead.total_seconds()
        steps = {each for window in windows for each in _steps(window, instant, ahead.days)}
        for each in sorted(steps):
            if instant < each < end and is_open(windows, each) != now:
                return each
    return end


def _steps(window: HourWindow, instant: float, days: int) -> Iterator[float]:
    """Instants at which the window may open or close: its two times each day, and changes of the clock."""
    first = datetime.fromtimestamp(instant, window.zone).date() - timedelta(days=1)
    for number in range(days + 3):
        day = first + timedelta(days=number)
        for minute in (window.begins, window.ends):
            yield from _shown(day, minute, window.zone)
        changed = _clock_change(day, window.zone)
        if changed is not None:
            yield changed


def _shown(day: date, minute: int, zone: tzinfo) -> Iterator[float]:
    """The instants at which the clock shows this minute: one, or two when it is set back."""
    shown = datetime.combine(day, time(), zone) + timedelta(minutes=minute)
    for fold in (0, 1):
        yield shown.replace(fold=fold).timestamp()


def _clock_change(day: date, zone: tzinfo) -> float | None:
    """The first second of this day with a different offset from UTC; None on nearly all days."""
    midnight = datetime.combine(day, time(), UTC)
    low, high = int(midnight.timestamp()), int((midnight + timedelta(days=1)).timestamp())
    before = _offset(low, zone)
    if _offset(high, zone) == before:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(middle, zone) == before:
            low = middle
        else:
            high = middle
    return float(high)


def _offset(instant: int, zone: tzinfo) -> timedelta | None:
    return datetime.fromtimestamp(instant, zone).utcoffset()


class Hours:
    """Windows by priority; a priority without one may always leave.  Remembers the answer until it changes."""

    def __init__(self, windows: Mapping[int, Sequence[HourWindow]]) -> None:
        self._windows = windows
        self._known: dict[int, tuple[bool, float, float]] = {}
        """By priority: whether it is open, when that was computed, and until when it holds."""

    def closed_until(self, priority: int, instant: float) -> float | None:
        """When messages of this priority may be sent again; None if they may now."""
        windows = self._windows.get(priority)
        if windows is None:
            return None
        is_open_now, since, until = self._known.get(priority, (False, 0.0, 0.0))
        if not since <= instant < until:  # also after the clock was set back
            is_open_now, since, until = is_open(windows, instant), instant, next_change(windows, instant)
            self._known[priority] = (is_open_now, since, until)
        return None if is_open_now else until

    @property
    def priorities(self) -> Iterable[int]:
        """Those that have windows."""
        return self._windows.keys()


LINK_BYTES_MAX: Final = 10**15
"""No link carries more in a day."""
Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])|24:00", re.ASCII)
_ZONE: Final = re.compile(r"[A-Za-z0-9_+-]{1,64}(/[A-Za-z0-9_+-]{1,64}){0,3}", re.ASCII)


class WindowSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hours in which messages of some priorities may be sent; several windows add up, and a priority without a window
    may always send."""

    priorities: Annotated[list[Annotated[int, Meta(ge=0, le=route_manifest.DEFAULT_PRIORITY)]], Meta(min_length=1)]
    """Priorities of routes, 0 to 9; 2000000000 stands for routes without one."""
    begins: str = msgspec.field(name="from")
    """When the window opens, such as `22:00`, by the wall clock of `timezone`."""
    to: str
    """When the window closes; a time before `from` is on the next day. `24:00` is midnight."""
    timezone: str = "UTC"
    """Time zone, such as `Europe/Berlin`, including daylight saving time."""
    days: Annotated[list[Weekday], Meta(min_length=1)] | None = None
    """Days of the week on which the window opens, `mon` to `sun`; absent: every day."""

    def __post_init__(self) -> None:
        mistakes.refuse(self._wrong())

    def _wrong(self) -> Iterator[Mistake]:
        for key, value in (("from", self.begins), ("to", self.to)):
            if not _TIME.fullmatch(value) or (key == "from" and value == "24:00"):
                yield Mistake(key, f"must be a time of day such as 22:00, is {shown(value)}")
        if self.begins == self.to:
            yield Mistake("to", f"must differ from `from`, is {shown(self.to)}")
        yield from zone_mistakes("timezone", self.timezone)
        for priority in self.priorities:
            if route_manifest.PRIORITY_MAX < priority < route_manifest.DEFAULT_PRIORITY:
                said = f"must be 0 to {route_manifest.PRIORITY_MAX}, or {route_manifest.DEFAULT_PRIORITY}"
                yield Mistake("priorities", f"{said} for routes without one, has {priority}: no route has that")


def zone_mistakes(key: str, name: str) -> Iterator[Mistake]:
    """The mistakes in the name of a time zone."""
    if zone(name) is None:
        said = "must be the name of a time zone such as Europe/Berlin that this machine knows (package tzdata)"
        yield Mistake(key, f"{said}, is {shown(name)}")


def zone(name: str) -> tzinfo | None:
    """The time zone; None if this machine does not know it."""
    if name == "UTC":  # works without a time zone database
        return UTC
    if not _ZONE.fullmatch(name):
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # not found, a file of something else, a folder
        return None


def windows_by_priority(windows: Iterable[WindowSettings]) -> dict[int, list[HourWindow]]:
    """The windows of each priority, from valid settings."""
    found: dict[int, list[HourWindow]] = {}
    for each in windows:
        days = EVERY_DAY if each.days is None else frozenset(WEEKDAYS.index(day) for day in each.days)
        window = HourWindow(
            begins=_minute(each.begins), ends=_minute(each.to), zone=zone(each.timezone) or UTC, days=days
        )
        for priority in each.priorities:
            found.setdefault(priority, []).append(window)
    return found


def _minute(text: str) -> int:
    hours, minutes = text.split(":")
    return min(MINUTES, int(hours) * 60 + int(minutes))
