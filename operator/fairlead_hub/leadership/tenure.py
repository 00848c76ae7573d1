"""May this process still act as the hub?  Judged by the Lease it renewed and by whether it ran all the time.

    renewed ── writes allowed for LEASE_SECONDS ──▶ not renewed: no writes; nodes are served on
       ▲                                                 │ and we did not run for PAUSE_SECONDS
       └──────────── renewed again ────────── doubted: nothing is sent to any node either

While the API server is away no hub can take over, so edges are served on.  A process that was stopped or suspended may
have been replaced meanwhile, and must ask before it says another word.  ``now`` is seconds of a clock that counts
suspended time.
"""

from __future__ import annotations

from fairlead_hub.leadership.lease import LEASE_SECONDS, RENEW_SECONDS

PULSE_SECONDS = 0.5
"""How often ``ran`` is called at least."""
PAUSE_SECONDS = LEASE_SECONDS - RENEW_SECONDS - 2.0
"""A shorter pause leaves time to renew before another hub may take over."""


class Tenure:
    """See the module."""

    def __init__(self, now: float) -> None:
        self._renewed_at = float("-inf")
        self._ran_at = now
        self.doubted = False

    def renewed(self, asked_at: float, now: float) -> None:
        """The API server confirmed a renewal that was asked for at this time."""
        self._renewed_at = max(self._renewed_at, asked_at)
        if self.seconds_left(now) > 0:
            self.doubted = False

    def end(self) -> None:
        """The Lease is another's."""
        self._renewed_at = float("-inf")

    def seconds_left(self, now: float) -> float:
        """How long writes are allowed still: no other hub can hold the Lease before that.  0: they are not."""
        return max(0.0, self._renewed_at + LEASE_SECONDS - now)

    def ran(self, now: float) -> bool:
        """This process runs.  True when it begins to be in doubt: end every connection, then renew."""
        paused = now - self._ran_at >= PAUSE_SECONDS
        self._ran_at = now
        if self.doubted or not paused or self.seconds_left(now) > 0:
            return False
        self.doubted = True
        return True
