"""When the edge asks for a new certificate: the hub said after how long; what fails is tried again, ever less often.

    welcomed(after) ─▶ due ─asked─▶ waiting ─┬─ issued(after) ─▶ due, much later
         ▲                                   ├─ refused ───────▶ due, after a pause that doubles
         └── session ended ──────────────────┘

Times are seconds of a monotonic clock: the device's wall clock may show what it likes.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_wire.backoff import Backoff

RETRY_SECONDS_MIN: Final = 5.0
RETRY_SECONDS_MAX: Final = 3600.0
"""With 90 days a third of a certificate's life holds some hundred attempts."""
BACKOFF: Final = Backoff(RETRY_SECONDS_MIN, RETRY_SECONDS_MAX)


class CertificateRenewal(msgspec.Struct, frozen=True, kw_only=True):
    """One moment; each event gives the next one."""

    due: float | None = None
    """When to ask; None: the hub renews nothing, or no session is open."""
    asked: bool = False
    """The answer is waited for."""
    failures: int = 0
    """In a row, over sessions."""
    code: str = ""
    reason: str = ""
    """Why the last attempt failed; empty after one that succeeded."""

    def welcomed(self, after: float | None, now: float) -> CertificateRenewal:
        """A session is open; ``after``: what the hub said, None: it renews nothing.  A pause goes on."""
        pause = self.due if self.failures and self.due is not None else 0.0
        due = None if after is None else max(now + after, min(pause, now + RETRY_SECONDS_MAX))
        return msgspec.structs.replace(self, due=due, asked=False)

    def hastened(self, after: float, now: float) -> CertificateRenewal:
        """Another authority signs now: ask after so long at the latest.  What waits or was refused goes on as it is."""
        if self.asked or self.failures:
            return self
        return msgspec.structs.replace(self, due=now + after if self.due is None else min(self.due, now + after))

    def asking(self) -> CertificateRenewal:
        """A request is made and leaves."""
        return msgspec.structs.replace(self, asked=True)

    def issued(self, after: float | None, now: float) -> CertificateRenewal:
        """The new pair is on disk."""
        return CertificateRenewal(due=None if after is None else now + after)

    def failed(
        self, code: str, reason: str, now: float, draw: float, *, retry_after: float | None = None
    ) -> CertificateRenewal:
        """Not renewed: ``draw`` is from [0, 1); ``retry_after``: what the hub asks for, in seconds."""
        pause = BACKOFF.pause(self.failures, draw, asked=retry_after)
        return CertificateRenewal(due=now + pause, failures=self.failures + 1, code=code, reason=reason)

    def ended(self) -> CertificateRenewal:
        """The session ended; what was under way is asked for again in the next one."""
        return msgspec.structs.replace(self, asked=False, due=self.due if self.failures else None)

    def seconds_left(self, now: float) -> float | None:
        """Until it should ask; None: there is nothing to ask for."""
        return None if self.due is None or self.asked else max(0.0, self.due - now)
