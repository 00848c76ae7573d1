"""Delays between attempts that never give up: reconnecting, renewing a certificate, sending a report.

Attempts that may give up use ``delivery_policy``.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

DOUBLINGS_MAX: Final = 64
"""Keeps the exponent in range; every cap is reached long before."""
RETRY_AFTER_SECONDS_MAX: Final = 3600.0
"""Cap for callers that have none of their own."""
DIGITS_MAX: Final = 9
"""A number with more digits exceeds every cap, so it is not converted."""
_SECONDS: Final = re.compile(r"[0-9]+")


class Backoff(msgspec.Struct, frozen=True):
    """Exponential backoff with equal jitter: from ``first_seconds``, doubling up to ``longest_seconds``."""

    first_seconds: float
    longest_seconds: float

    def pause(self, failures: int, draw: float, *, asked: float | None = None) -> float:
        """Seconds to wait before the next attempt.

        ``failures`` counts the consecutive failures before the latest one (0 after the first); ``draw`` is from [0, 1).
        ``asked`` is a delay in seconds that the peer requested; it is honoured up to ``longest_seconds``.
        """
        return max(equal_jitter(self.ceiling(failures), draw), min(asked or 0.0, self.longest_seconds))

    def ceiling(self, failures: int) -> float:
        """The delay before jitter is applied."""
        return min(self.longest_seconds, self.first_seconds * 2.0 ** min(failures, DOUBLINGS_MAX))


def equal_jitter(seconds: float, draw: float) -> float:
    """A delay from half of ``seconds`` to all of it, so that many clients do not retry at the same moment."""
    return (1 + draw) * seconds / 2


def retry_after_seconds(header: str | None, most: float = RETRY_AFTER_SECONDS_MAX) -> float | None:
    """The delay of a ``Retry-After`` header (RFC 9110, section 10.2.3) in seconds, at most ``most``; None if unusable.

    Only the form in seconds is accepted: a date would depend on two clocks.  A peer may send any number of digits, so
    they are counted before they are converted.
    """
    if header is None or not _SECONDS.fullmatch(header):
        return None
    digits = header.lstrip("0")
    return most if len(digits) > DIGITS_MAX else min(float(digits or "0"), most)
