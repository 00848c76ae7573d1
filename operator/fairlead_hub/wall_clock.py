"""Converts the hub's time into wall-clock time.

The core counts seconds of one monotonic clock, passed to each call as ``now``.  Times in the API are RFC 3339 text in
UTC, and only this module produces them.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable

CORRECTION_SECONDS = 0.5
"""Smaller steps of the wall clock are ignored, so that a point in time keeps its text."""


class WallClock:
    """``offset`` returns by how many seconds the wall clock is currently ahead of the monotonic clock."""

    __slots__ = ("_ask", "_offset", "_second", "_text")

    def __init__(self, offset: Callable[[], float]) -> None:
        self._ask = offset
        self._offset = offset()
        self._second, self._text = -1, ""

    def text(self, now: float) -> str:
        """A monotonic time as RFC 3339, to the second."""
        second = int(self.seconds(now))
        if second != self._second:
            self._second, self._text = second, self.text_of(second)
        return self._text

    def seconds(self, now: float) -> float:
        """A monotonic time as seconds since 1970."""
        offset = self._ask()
        if abs(offset - self._offset) > CORRECTION_SECONDS:
            self._offset = offset
        return now + self._offset

    @staticmethod
    def text_of(second: int) -> str:
        """Seconds since 1970 as RFC 3339."""
        return datetime.datetime.fromtimestamp(second, datetime.UTC).isoformat().replace("+00:00", "Z")

    @staticmethod
    def shown(second: int) -> str:
        """Seconds since 1970 as the device's commands print times: 2026-11-23 00:51 UTC."""
        return f"{WallClock.utc(second):%Y-%m-%d %H:%M UTC}"

    @staticmethod
    def utc(second: int) -> datetime.datetime:
        """Seconds since 1970 as a datetime."""
        return datetime.datetime.fromtimestamp(second, datetime.UTC)

    @staticmethod
    def moment(text: str) -> int:
        """Seconds since 1970 of a time written by ``text``; 0 for anything else."""
        try:
            found = datetime.datetime.fromisoformat(text)
            if found.tzinfo is not None:
                found = found.astimezone(datetime.UTC)
        except (ValueError, OverflowError):
            return 0
        return int(found.timestamp()) if found.tzinfo is not None else 0
