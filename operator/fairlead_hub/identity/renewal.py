"""Decides when a connected node should renew its certificate.

    issued ────────────── 2/3 ± 5 % ──drawn──▶ renewal ─────────── expires
                              └─ another authority signs now: any time of the coming day

The hub draws the delay in seconds from now, so that device clocks do not matter and so that the renewals of nodes
created in one hour, or connected in one minute, are spread out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fairlead_hub.identity.signer import Authority
from fairlead_hub.wall_clock import WallClock

SHARE: Final = 2 / 3
"""Fraction of a certificate's lifetime."""
SPREAD: Final = 0.05
"""Fraction of the lifetime, before and after."""
OVERDUE_SECONDS: Final = 60.0
"""Overdue renewals are spread over this time, or over a quarter of the remaining lifetime."""
ROTATION_SECONDS: Final = 86_400.0
"""Time within which every connected node gets a certificate of the authority that signs now."""


def renew_after(*, issued: float, expires: float, now: float, draw: float, rotating: bool = False) -> float:
    """Seconds until the edge should ask.  Times are Unix times of the hub; ``draw`` is from [0, 1).

    ``rotating``: the certificate is of an authority that no longer signs.
    """
    life, left = max(0.0, expires - issued), max(0.0, expires - now)
    due = issued + life * (SHARE + SPREAD * (2.0 * draw - 1.0)) - now
    if rotating:
        due = min(due, draw * min(ROTATION_SECONDS, left * SHARE))
    return max(due, draw * min(OVERDUE_SECONDS, left / 4)) if due <= OVERDUE_SECONDS else due


class RenewalPlan:
    """``draw`` returns random numbers from [0, 1).  Until ``signs`` is called, nothing is renewed."""

    def __init__(self, clock: WallClock, draw: Callable[[], float]) -> None:
        self._clock, self._draw = clock, draw
        self._signing: Callable[[], Authority | None] = lambda: None

    def signs(self, signing: Callable[[], Authority | None]) -> None:
        """Enable signing; ``signing`` returns the authority that signs now."""
        self._signing = signing

    @property
    def authority(self) -> Authority | None:
        """The authority that signs now; None if nothing is renewed here."""
        return self._signing()

    def renew_after(self, *, issued: str, expires: str, issuer: str, now: float) -> float | None:
        """Seconds until a node with this certificate should ask; None if this hub signs nothing.

        Certificates of another authority, or of an earlier one of the same name, are renewed within a day.
        """
        authority = self._signing()
        if authority is None:
            return None
        return self._seconds(issued, expires, now, rotating=self._is_other(issued, issuer, authority))

    def earlier_renewal(self, issued: str, expires: str, issuer: str, now: float) -> float | None:
        """Like ``renew_after`` if another authority signed the certificate; None if that needs no renewal."""
        authority = self._signing()
        if authority is None or not self._is_other(issued, issuer, authority):
            return None
        return self._seconds(issued, expires, now, rotating=True)

    def _is_other(self, issued: str, issuer: str, authority: Authority) -> bool:
        # An external issuer may sign with any of its authorities.
        by_other = bool(issuer and authority.name) and issuer != authority.name
        return by_other or self._clock.moment(issued) < authority.not_before.timestamp()

    def _seconds(self, issued: str, expires: str, now: float, *, rotating: bool) -> float:
        return renew_after(
            issued=self._clock.moment(issued),
            expires=self._clock.moment(expires),
            now=self._clock.seconds(now),
            draw=self._draw(),
            rotating=rotating,
        )
