"""Progress of long work on standard error: one updating line on a terminal, a line every ten seconds elsewhere.

backfilling telemetry: 12,000 of 80,000 (15 %), 1,204/s, about 57 s left

Work that is usually short is ``passing``: on a terminal its line is removed at the end, and elsewhere it is reported
only if it takes seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from fairlead_wire import durations

LINE_SECONDS = 10.0
RENEW_SECONDS = 0.2
PASSING_SECONDS = 2.0
"""Shorter work is not reported without a terminal."""


class ProgressBar:
    """A context manager; ``expect`` sets the total, ``add`` reports progress.  Also prints the end."""

    def __init__(
        self,
        label: str,
        total: int = 0,
        *,
        passing: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._passing = passing
        self._label, self._total, self._done = label, total, 0
        self._stream = stream or sys.stderr
        self._clock = clock
        self._renews = self._stream.isatty()
        self._started = self._told = clock()
        self._wait = RENEW_SECONDS if self._renews else PASSING_SECONDS if passing else LINE_SECONDS

    def __enter__(self) -> ProgressBar:
        if self._renews or not self._passing:
            self._say(f"{self._label} …")
        return self

    def __exit__(self, *ended: object) -> None:
        if self._passing:
            if self._renews:
                self._stream.write("\r\x1b[K")
                self._stream.flush()
            return
        seconds = self._clock() - self._started
        self._say(f"{self._label}: {self._done:,} in {durations.span(seconds)}" if ended[0] is None else self._text())
        if self._renews:
            self._stream.write("\n")

    def expect(self, total: int) -> None:
        """Set the total when it is known."""
        self._total = total

    def advance(self, _: object = None) -> None:
        """Advance by one step."""
        self.add(1)

    def add(self, steps: int) -> None:
        """Advance by so many steps; print a line if one is due."""
        self._done += steps
        if self._clock() - self._told >= self._wait:
            self._say(self._text())
            self._wait = RENEW_SECONDS if self._renews else LINE_SECONDS

    def _text(self) -> str:
        seconds = self._clock() - self._started
        rate = self._done / seconds if seconds > 0 else 0.0
        parts = [f"{self._done:,}"]
        if self._total:
            parts = [f"{self._done:,} of {self._total:,} ({min(100, 100 * self._done // self._total)} %)"]
        parts.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:,.1f}/s")
        if self._total > self._done and rate > 0:
            parts.append(f"about {durations.span((self._total - self._done) / rate)} left")
        return f"{self._label}: {', '.join(parts)}"

    def _say(self, text: str) -> None:
        self._told = self._clock()
        # Erased to its end first: the line before may have been longer.
        self._stream.write(f"\r\x1b[K{text}" if self._renews else f"{text}\n")
        self._stream.flush()
