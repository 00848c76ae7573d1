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

    def renew_after(self, *, issued: str, expires: str, issuer: str, now: float) -> float | None:
        """Seconds until a node with this certificate should ask; None: this hub signs nothing.

        What another authority signed, or an earlier one of the same name, is renewed within a day.
        """
        authority = self._signing()
        if authority is None:
            return None
        begins = self._clock.moment(issued)
        # An issuer outside may sign by any authority of its own.
        by_other = bool(issuer and authority.name) and issuer != authority.name
        return renew_after(
            issued=begins,
            expires=self._clock.moment(expires),
            now=self._clock.seconds(now),
            draw=self._draw(),
            rotating=by_other or begins < authority.not_before.timestamp(),
        )
