"""In which hours messages of a priority may leave: windows by the wall clock of a place.

A window is open while the clock on the wall there shows a time from ``begins`` up to ``ends``; so it is open in both
of the hours that a clock shows twice, and what lies in the hour that a clock leaves out does not happen that day.
A window that ends before it begins goes over midnight, and belongs to the day on which it begins.

Pure: instants are arguments (Unix seconds).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final

import msgspec

MINUTES: Final = 24 * 60
EVERY_DAY: Final = frozenset(range(7))
LOOK_AHEAD: Final = timedelta(days=15)
"""A window of one weekday opens within eight days, or within fifteen when the first falls into an hour left out."""


SOON: Final = timedelta(days=2)
"""Nearly all are found so soon; the rest of ``LOOK_AHEAD`` is not looked at then."""


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
    """Several windows are open when one is."""
    return any(window.is_open(instant) for window in windows)


def next_change(windows: Sequence[HourWindow], instant: float) -> float:
    """The first instant after this one at which ``is_open`` is different; where there is none in ``LOOK_AHEAD``, the
    end of that time, to look again then."""
    now = is_open(windows, instant)
    for ahead in (SOON, LOOK_AHEAD):
        end = instant + ahead.total_seconds()
        steps = {each for window in windows for each in _steps(window, instant, ahead.days)}
        for each in sorted(steps):
            if instant < each < end and is_open(windows, each) != now:
                return each
    return end


def _steps(window: HourWindow, instant: float, days: int) -> Iterator[float]:
    """Instants around which the window may open or close: its two times each day, and where clocks are changed."""
    first = datetime.fromtimestamp(instant, window.zone).date() - timedelta(days=1)
    for number in range(days + 3):
        day = first + timedelta(days=number)
        for minute in (window.begins, window.ends):
            yield from _shown(day, minute, window.zone)
        changed = _clock_change(day, window.zone)
        if changed is not None:
            yield changed


def _shown(day: date, minute: int, zone: tzinfo) -> Iterator[float]:
    """When the clock shows this minute: once, or twice."""
    shown = datetime.combine(day, time(), zone) + timedelta(minutes=minute)
    for fold in (0, 1):
        yield shown.replace(fold=fold).timestamp()


def _clock_change(day: date, zone: tzinfo) -> float | None:
    """The first second with another offset from UTC on this day; None on nearly all days."""
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
        """By priority: whether open, since when that was looked up, and until when it is so."""

    def closed_until(self, priority: int, instant: float) -> float | None:
        """None while messages of this priority may leave."""
        windows = self._windows.get(priority)
        if windows is None:
            return None
        is_open_now, since, until = self._known.get(priority, (False, 0.0, 0.0))
        if not since <= instant < until:  # also where the clock was put back
            is_open_now, since, until = is_open(windows, instant), instant, next_change(windows, instant)
            self._known[priority] = (is_open_now, since, until)
        return None if is_open_now else until

    @property
    def priorities(self) -> Iterable[int]:
        """Those that have windows."""
        return self._windows.keys()
