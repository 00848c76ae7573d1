"""Retry-After, as every client here reads it (RFC 9110, section 10.2.3).

Only the form in seconds is taken: what a date means depends on two clocks.  A peer may write any number of digits, so
they are counted before they are read.
"""

from __future__ import annotations

import re

SECONDS_MAX = 3600.0
"""Where a caller has no limit of its own."""
DIGITS_MAX = 9
"""More than this is more than any limit."""
_SECONDS = re.compile(r"[0-9]+")


def seconds(text: str | None, most: float = SECONDS_MAX) -> float | None:
    """How long the peer asks to wait, at most ``most`` seconds; None for no header, a date and nonsense."""
    if text is None or not _SECONDS.fullmatch(text):
        return None
    digits = text.lstrip("0")
    return most if len(digits) > DIGITS_MAX else min(float(digits or "0"), most)
