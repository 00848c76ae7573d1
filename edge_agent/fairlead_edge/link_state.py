"""The state of the link to the hub, an immutable value; each event returns the next state.

connecting ──opened──▶ connected ──ended──▶ connecting, or refused (permanently, by the hub)
"""

from __future__ import annotations

from typing import Literal

import msgspec


class StaleHub(msgspec.Struct, frozen=True, kw_only=True):
    """The holder of the Lease has a lower fencing number than one that was obeyed before, and is refused.

    Normally this means that a hub has lost its Lease without knowing it.  But the Lease may also have been deleted or
    restored, or the number may have been wrong.  So a number that no hub has used for some time, while the holder of
    the Lease has a lower one, is given up.  This record is on disk, so that it works on a device that is awake for only
    a minute each hour.
    """

    since: float
    """When the first such hub was refused, in seconds of the store's clock."""
    highest: int
    """The highest fencing number among them."""

    @staticmethod
    def refused(before: StaleHub | None, fence: int, now: float) -> StaleHub:
        """The record after a hub with number ``fence`` was refused; starts anew if the clock has restarted."""
        if before is None or now < before.since:
            return StaleHub(since=now, highest=fence)
        return StaleHub(since=before.since, highest=max(before.highest, fence))

    def lower(self, now: float, seconds: float) -> int | None:
        """The fencing number to accept after ``seconds``; None before."""
        return self.highest if now - self.since >= seconds else None


class LinkState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the link; ``since`` and ``last_contact`` are in seconds of the store's clock."""

    state: Literal["connecting", "connected", "refused"] = "connecting"
    hub: str = ""
    fence: int = 0
    since: float | None = None
    """When the session opened or ended (at first: when the agent started)."""
    offline_seconds: float = 0.0
    """Time without a session, from the start to ``since``."""
    last_contact: float | None = None
    reason: str = ""
    """Why it is not connected."""
    follows_at: float | None = None
    """When a hub that is refused for its lower fencing number will be accepted; None: that is not the reason."""

    def started(self, now: float, last_contact: float | None) -> LinkState:
        """The agent begins to dial; ``last_contact`` comes from an earlier run."""
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
        """A session or an attempt ended; further failed attempts do not change ``since``."""
        return msgspec.structs.replace(
            self,
            state="connecting" if dials_again else "refused",
            reason=reason,
            follows_at=follows_at,
            since=now if self.state == "connected" else self.since,
        )

    def with_contact(self, at: float | None) -> LinkState:
        """A frame arrived in an open session at this time; None: none did."""
        return self if at is None else msgspec.structs.replace(self, last_contact=at)

    def offline_at(self, now: float) -> float:
        """Seconds without a session since the start, including the current outage."""
        present = 0.0 if self.state == "connected" or self.since is None else now - self.since
        return round(self.offline_seconds + max(0.0, present), 3)
