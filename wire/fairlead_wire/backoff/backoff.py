"""Pauses between attempts that never give up: a link, a renewal, a report.  ``delivery`` is for those that may."""

from __future__ import annotations

import msgspec

DOUBLINGS_MAX = 64
"""Beyond them the longest pause was reached long ago."""


class Backoff(msgspec.Struct, frozen=True):
    """Each pause is up to twice as long as the one before, at most ``longest_seconds``."""

    first_seconds: float
    longest_seconds: float

    def pause(self, failures: int, draw: float, *, asked: float | None = None) -> float:
        """Seconds to wait after so many failures in a row before this one.

        ``draw`` is from [0, 1).  ``asked`` is what the other side asked for, in seconds: no less is waited, but never
        more than ``longest_seconds``.
        """
        longest = min(self.longest_seconds, self.first_seconds * 2.0 ** min(failures, DOUBLINGS_MAX))
        return max(equal_jitter(longest, draw), min(asked or 0.0, self.longest_seconds))


def equal_jitter(seconds: float, draw: float) -> float:
    """From half of ``seconds`` up to all of it, so that many who wait do not come back together."""
    return (1 + draw) * seconds / 2
