"""The one place that turns the hub's time into the time people read.

Everything in the core counts seconds of one monotonic clock, given to each call as ``now``.  What is written into the
API is RFC 3339 text in UTC; only this module makes it.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable

CORRECTION_SECONDS = 0.5
"""A smaller step of the wall clock is ignored, so that a moment keeps its text."""


class WallClock:
    """``offset`` says how many seconds the wall clock is ahead of the monotonic one now."""

    __slots__ = ("_ask", "_offset", "_second", "_text")

    def __init__(self, offset: Callable[[], float]) -> None:
        self._ask = offset
        self._offset = offset()
        self._second, self._text = -1, ""

    def text(self, now: float) -> str:
        """RFC 3339 of a monotonic time, to the second."""
        second = int(self.seconds(now))
        if second != self._second:
            self._second, self._text = second, self.text_of(second)
        return self._text

    def seconds(self, now: float) -> float:
        """Since 1970, of a monotonic time."""
        offset = self._ask()
        if abs(offset - self._offset) > CORRECTION_SECONDS:
            self._offset = offset
        return now + self._offset

    @staticmethod
    def text_of(second: int) -> str:
        """RFC 3339 of seconds since 1970."""
        return datetime.datetime.fromtimestamp(second, datetime.UTC).isoformat().replace("+00:00", "Z")

    @staticmethod
    def utc(second: int) -> datetime.datetime:
        """Of seconds since 1970."""
        return datetime.datetime.fromtimestamp(second, datetime.UTC)

    @staticmethod
    def moment(text: str) -> int:
        """Seconds since 1970 of a time as ``text`` writes it; 0 for what it never writes."""
        try:
            found = datetime.datetime.fromisoformat(text)
            if found.tzinfo is not None:
                found = found.astimezone(datetime.UTC)
        except (ValueError, OverflowError):
            return 0
        return int(found.timestamp()) if found.tzinfo is not None else 0
