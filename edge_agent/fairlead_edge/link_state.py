"""What is known of the link to the hub: a value that each event replaces by the next one.

connecting ──opened──▶ connected ──ended──▶ connecting, or refused (the hub said not to come back)
"""

from __future__ import annotations

from typing import Literal

import msgspec


class StaleHub:
    """Since when hubs that hold the Lease have shown lower fencing numbers than the one that was obeyed.

    A hub that lost its Lease is refused for good.  But the Lease may have been lost or restored, and a number may
    never have been true.  One that no hub shows for ``seconds``, while the holder of the Lease shows a lower one, is
    given up.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: float | None = None
        self._highest = 0

    def refused(self, fence: int, now: float) -> int | None:
        """A hub that holds the Lease has this number.  Returns the number to go back to, when it is time."""
        if self._since is None:
            self._since, self._highest = now, fence
        self._highest = max(self._highest, fence)
        return self._highest if now - self._since >= self._seconds else None

    def obeyed(self) -> None:
        """A session is open."""
        self._since = None


class LinkState(msgspec.Struct, frozen=True, kw_only=True):
    """``since`` and ``last_contact`` are seconds of the store's clock."""

    state: Literal["connecting", "connected", "refused"] = "connecting"
    hub: str = ""
    fence: int = 0
    since: float | None = None
    """When it was connected, or when that ended (at first: when the agent started)."""
    offline_seconds: float = 0.0
    """Time without a session since the start, up to ``since``."""
    last_contact: float | None = None
    reason: str = ""
    """Why it is not connected."""

    def started(self, now: float, last_contact: float | None) -> LinkState:
        """The agent begins to dial; ``last_contact`` was written down by an earlier run."""
        return msgspec.structs.replace(self, since=now, last_contact=last_contact)

    def opened(self, *, hub: str, fence: int, now: float) -> LinkState:
        """A session with this hub is open."""
        return LinkState(
            state="connected",
            hub=hub,
            fence=fence,
            since=now,
            offline_seconds=self.offline_at(now),
            last_contact=self.last_contact,
        )

    def ended(self, reason: str, now: float, *, dials_again: bool) -> LinkState:
        """A session or an attempt ended; without a session the time of the first failure stays."""
        return msgspec.structs.replace(
            self,
            state="connecting" if dials_again else "refused",
            reason=reason,
            since=now if self.state == "connected" else self.since,
        )

    def heard(self, at: float | None) -> LinkState:
        """The hub was heard in an open session; None: it was not."""
        return self if at is None else msgspec.structs.replace(self, last_contact=at)

    def offline_at(self, now: float) -> float:
        """Time without a session since the start, including the present outage."""
        present = 0.0 if self.state == "connected" or self.since is None else now - self.since
        return round(self.offline_seconds + max(0.0, present), 3)
