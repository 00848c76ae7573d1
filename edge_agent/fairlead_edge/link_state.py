"""The state of the link to the hub: a value that each event replaces by the next one.

connecting ──opened──▶ connected ──ended──▶ connecting, or refused (the hub said not to come back)
"""

from __future__ import annotations

from typing import Literal

import msgspec


class StaleHub(msgspec.Struct, frozen=True, kw_only=True):
    """Hubs that hold the Lease have lower fencing numbers than the one that was obeyed, and are refused.

    A hub that lost its Lease is refused for good.  But the Lease may have been lost or restored, and a number may
    never have been true.  One that no hub shows for some time, while the holder of the Lease shows a lower one, is
    given up.  Written down: a device that is awake for a minute each hour must come to an end, too.
    """

    since: float
    """Seconds of the store's clock, when the first of them was refused."""
    highest: int
    """The highest of their numbers."""

    @staticmethod
    def refused(before: StaleHub | None, fence: int, now: float) -> StaleHub:
        """Another hub with this number was refused.  When the clock has restarted, this starts again, too."""
        if before is None or now < before.since:
            return StaleHub(since=now, highest=fence)
        return StaleHub(since=before.since, highest=max(before.highest, fence))

    def lower(self, now: float, seconds: float) -> int | None:
        """The fencing number to go back to, once it is time; None before."""
        return self.highest if now - self.since >= seconds else None


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
    follows_at: float | None = None
    """When a hub is followed that was refused for its lower fencing number; None: that is not the reason."""

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

    def ended(self, reason: str, now: float, *, dials_again: bool, follows_at: float | None = None) -> LinkState:
        """A session or an attempt ended; without a session the time of the first failure stays."""
        return msgspec.structs.replace(
            self,
            state="connecting" if dials_again else "refused",
            reason=reason,
            follows_at=follows_at,
            since=now if self.state == "connected" else self.since,
        )

    def heard(self, at: float | None) -> LinkState:
        """The hub was heard in an open session; None: it was not."""
        return self if at is None else msgspec.structs.replace(self, last_contact=at)

    def offline_at(self, now: float) -> float:
        """Time without a session since the start, including the present outage."""
        present = 0.0 if self.state == "connected" or self.since is None else now - self.since
        return round(self.offline_seconds + max(0.0, present), 3)
