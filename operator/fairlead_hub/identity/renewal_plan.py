"""When a connected node should renew its certificate here: by the hub's clock, its authority, and chance."""

from __future__ import annotations

from collections.abc import Callable

from fairlead_hub.identity.renewal_time import renew_after
from fairlead_hub.identity.signer import Authority
from fairlead_hub.wall_clock import WallClock


class RenewalPlan:
    """``draw`` gives random numbers from [0, 1).  Until ``signs`` is called, nothing is renewed."""

    def __init__(self, clock: WallClock, draw: Callable[[], float]) -> None:
        self._clock, self._draw = clock, draw
        self._signing: Callable[[], Authority | None] = lambda: None

    def signs(self, signing: Callable[[], Authority | None]) -> None:
        """There is a signer; ``signing`` says who signs now."""
        self._signing = signing

    @property
    def authority(self) -> Authority | None:
        """Who signs now; None: nothing is renewed here."""
        return self._signing()

    def renew_after(self, *, issued: str, expires: str, issuer: str, now: float) -> float | None:
        """Seconds until a node with this certificate should ask; None: this hub signs nothing.

        What another authority signed, or an earlier one of the same name, is renewed within a day.
        """
        authority = self._signing()
        if authority is None:
            return None
        return self._seconds(issued, expires, now, rotating=self._is_other(issued, issuer, authority))

    def hastened(self, issued: str, expires: str, issuer: str, now: float) -> float | None:
        """The same, where another authority signed it; None: it need not renew for that."""
        authority = self._signing()
        if authority is None or not self._is_other(issued, issuer, authority):
            return None
        return self._seconds(issued, expires, now, rotating=True)

    def _is_other(self, issued: str, issuer: str, authority: Authority) -> bool:
        # An issuer outside may sign by any authority of its own.
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
