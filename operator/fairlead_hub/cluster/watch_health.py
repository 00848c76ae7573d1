"""Which watched collections are not followed at the moment, since when, and why: a blind hub must say so.

stale ─▶ since the first time, with the newest reason ─fresh─▶ forgotten
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

UNREADY_SECONDS = 10.0
"""A collection the hub decides by may be stale so long before the hub calls itself not ready."""


class StaleCollection(msgspec.Struct, frozen=True, kw_only=True):
    """One collection: what we know of it is as old as ``since`` (seconds of the monotonic clock)."""

    collection: str
    since: float
    reason: str


class WatchHealth:
    """``inputs`` are the collections without which the hub cannot decide; of others only their own objects are old."""

    def __init__(self, inputs: Collection[str] = ()) -> None:
        self.inputs = frozenset(inputs)
        self._stale: dict[str, StaleCollection] = {}

    def stale(self, collection: str, reason: str, now: float) -> bool:
        """True the first time: it was fresh until now."""
        known = self._stale.get(collection)
        since = known.since if known is not None else now
        self._stale[collection] = StaleCollection(collection=collection, since=since, reason=reason)
        return known is None

    def fresh(self, collection: str) -> float | None:
        """It is followed again, or not wanted any more; since when it was not, None if it was."""
        known = self._stale.pop(collection, None)
        return None if known is None else known.since

    def all(self) -> list[StaleCollection]:
        """Longest first."""
        return sorted(self._stale.values(), key=lambda one: (one.since, one.collection))

    def oldest(self, now: float) -> float:
        """Seconds since the oldest was followed; 0 when all are."""
        return max((now - one.since for one in self._stale.values()), default=0.0)

    def is_blind(self, now: float) -> bool:
        """Something the hub decides by has been stale for too long to call it ready."""
        return any(one.collection in self.inputs and now - one.since >= UNREADY_SECONDS for one in self._stale.values())
