"""Pauses between attempts that never give up: a link, a renewal, a report.

``delivery_policy`` is for attempts that may give up.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

DOUBLINGS_MAX: Final = 64
"""The longest pause is reached long before."""
RETRY_AFTER_SECONDS_MAX: Final = 3600.0
"""For callers without a limit of their own."""
DIGITS_MAX: Final = 9
"""More digits than this are more than any limit."""
_SECONDS: Final = re.compile(r"[0-9]+")


class Backoff(msgspec.Struct, frozen=True):
    """Each pause is up to twice as long as the one before, at most ``longest_seconds``."""

    first_seconds: float
    longest_seconds: float

    def pause(self, failures: int, draw: float, *, asked: float | None = None) -> float:
        """Seconds to wait after ``failures`` failures in a row before this one, with equal jitter.

        ``draw`` is from [0, 1).  ``asked`` is what the other side asked for, in seconds: the pause is never shorter,
        but never longer than ``longest_seconds`` because of it.
        """
        return max(equal_jitter(self.ceiling(failures), draw), min(asked or 0.0, self.longest_seconds))

    def ceiling(self, failures: int) -> float:
        """The same without jitter."""
        return min(self.longest_seconds, self.first_seconds * 2.0 ** min(failures, DOUBLINGS_MAX))


def equal_jitter(seconds: float, draw: float) -> float:
    """From half of ``seconds`` to all of it, so that many clients do not retry at the same moment."""
    return (1 + draw) * seconds / 2


def retry_after_seconds(header: str | None, most: float = RETRY_AFTER_SECONDS_MAX) -> float | None:
    """Seconds to wait as asked by ``Retry-After`` (RFC 9110, section 10.2.3), at most ``most``; None if it is unusable.

    Only the form in seconds is taken: what a date means depends on two clocks.  A peer may write any number of digits,
    so they are counted before they are converted.
    """
    if header is None or not _SECONDS.fullmatch(header):
        return None
    digits = header.lstrip("0")
    return most if len(digits) > DIGITS_MAX else min(float(digits or "0"), most)
