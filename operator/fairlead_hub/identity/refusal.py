"""Why a device gets no certificate: the same error for joining, renewal and late renewal.  Also if our clock is wrong.

    Date of an answer of the API server, our time then ─skew─▶ seconds ─┬─ above SKEW_WARN_SECONDS: logged
                                                                        └─ above SKEW_STOP_SECONDS: nothing is signed

Certificates carry the hub's time.  With a wrong clock they would expire immediately, or outlive what was configured.
"""

from __future__ import annotations

import datetime
import email.utils
from typing import Final

from fairlead_hub.identity.csr import CsrRefused
from fairlead_hub.identity.signer import SignerUnavailable
from fairlead_wire import durations, message
from fairlead_wire.errors import Permanent

UNAVAILABLE_RETRY_SECONDS: Final = 5.0


class IdentityRefused(Permanent):
    """``code`` as on the link; ``retry_after`` is None if asking again changes nothing."""

    def __init__(self, code: str, reason: str, *, retry_after: float | None = None) -> None:
        super().__init__(reason, code=code)
        self.retry_after = retry_after

    def frame(self) -> message.Refuse:
        return message.Refuse(code=self.code, reason=str(self), retry_after=self.retry_after)


def of(error: CsrRefused | SignerUnavailable | IdentityRefused) -> IdentityRefused:
    """The error as it is reported to the device."""
    match error:
        case IdentityRefused():
            return error
        case CsrRefused():
            return IdentityRefused(error.code, str(error))
    retry = error.retry_after_seconds
    return IdentityRefused(
        "signer_unavailable", str(error), retry_after=UNAVAILABLE_RETRY_SECONDS if retry is None else retry
    )


# ---- the clock of this hub -----------------------------------------------------------------------


SKEW_WARN_SECONDS: Final = 30.0
SKEW_STOP_SECONDS: Final = 300.0
SKEW_RETRY_SECONDS: Final = 30.0


def skew(date: str, wall: float) -> float | None:
    """Seconds by which ``wall`` is ahead of an HTTP ``Date`` (whole seconds); None if the date is invalid."""
    try:
        there = email.utils.parsedate_to_datetime(date)
    except (ValueError, TypeError, OverflowError):
        return None
    return wall - there.replace(tzinfo=there.tzinfo or datetime.UTC).timestamp()


def skew_text(seconds: float) -> str:
    """The skew, for people."""
    side = "ahead of" if seconds > 0 else "behind"
    return f"the clock of this hub is {durations.span(abs(seconds))} {side} the API server's"


def skew_refusal(seconds: float) -> IdentityRefused | None:
    """Why nothing is signed; None if the clock is accurate enough."""
    if abs(seconds) <= SKEW_STOP_SECONDS:
        return None
    reason = f"{skew_text(seconds)}, so no certificate is signed"
    return IdentityRefused("clock", reason, retry_after=SKEW_RETRY_SECONDS)
