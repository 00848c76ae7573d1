"""The difference between this hub's clock and the API server's, from the ``Date`` of its answers.

    Date of an answer, our time then ─skew─▶ seconds ─┬─ above WARN_SECONDS: logged
                                                      └─ above STOP_SECONDS: nothing is signed

Certificates carry the hub's time.  With a wrong clock they would expire immediately, or outlive what was configured.
"""

from __future__ import annotations

import datetime
import email.utils
from typing import Final

from fairlead_hub.identity.refusal import IdentityRefused
from fairlead_wire import durations

WARN_SECONDS: Final = 30.0
STOP_SECONDS: Final = 300.0
RETRY_SECONDS: Final = 30.0


def skew(date: str, wall: float) -> float | None:
    """Seconds by which ``wall`` is ahead of an HTTP ``Date`` (whole seconds); None if the date is invalid."""
    try:
        there = email.utils.parsedate_to_datetime(date)
    except (ValueError, TypeError, OverflowError):
        return None
    return wall - there.replace(tzinfo=there.tzinfo or datetime.UTC).timestamp()


def text(seconds: float) -> str:
    """The skew, for people."""
    side = "ahead of" if seconds > 0 else "behind"
    return f"the clock of this hub is {durations.span(abs(seconds))} {side} the API server's"


def refusal(seconds: float) -> IdentityRefused | None:
    """Why nothing is signed; None if the clock is accurate enough."""
    if abs(seconds) <= STOP_SECONDS:
        return None
    reason = f"{text(seconds)}, so no certificate is signed"
    return IdentityRefused("clock", reason, retry_after=RETRY_SECONDS)
