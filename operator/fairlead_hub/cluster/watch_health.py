"""When to reopen a watch, and which watched collections are not being followed at the moment, since when and why.

    opened ─▶ progressed … ─▶ ended | went_silent ─▶ from the same version, at once
       ▲                      rejected ───────────▶ from the same version, the third time from a new list
       └───────────────────── failed ─────────────▶ a pause that grows to seconds, never to minutes
    stale ─▶ since the first time, with the newest reason ─fresh─▶ forgotten

A server ends watches that are slow or that it has no room for, which says nothing about the version.  A new list is
needed if the server says the version is too old, rejects it repeatedly, or was away for so long that a list is safer.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

UNREADY_SECONDS = 10.0
"""How long a collection the hub decides by may be stale before the hub reports that it is not ready."""


class StaleCollection(msgspec.Struct, frozen=True, kw_only=True):
    """One collection, known only as of ``since`` (seconds of the monotonic clock)."""

    collection: str
    since: float
    reason: str


class WatchHealth:
    """``inputs`` are the collections without which the hub cannot decide; others only affect their own objects."""

    def __init__(self, inputs: Collection[str] = ()) -> None:
        self.inputs = frozenset(inputs)
        self._stale: dict[str, StaleCollection] = {}

    def stale(self, collection: str, reason: str, now: float) -> bool:
        """Mark a collection as stale.  Returns True if it was fresh until now."""
        known = self._stale.get(collection)
        since = known.since if known is not None else now
        self._stale[collection] = StaleCollection(collection=collection, since=since, reason=reason)
        return known is None

    def fresh(self, collection: str) -> float | None:
        """It is followed again, or no longer needed.  Returns since when it was stale, or None."""
        known = self._stale.pop(collection, None)
        return None if known is None else known.since

    def all(self) -> list[StaleCollection]:
        """All stale collections, longest first."""
        return sorted(self._stale.values(), key=lambda one: (one.since, one.collection))

    def oldest(self, now: float) -> float:
        """Seconds since the oldest one became stale; 0 if there are none."""
        return max((now - one.since for one in self._stale.values()), default=0.0)

    def is_blind(self, now: float) -> bool:
        """Whether an input has been stale for so long that the hub is not ready."""
        return any(one.collection in self.inputs and now - one.since >= UNREADY_SECONDS for one in self._stale.values())


RETRY_SECONDS: Final = 0.1
RETRY_SECONDS_MAX: Final = 3.0
"""How soon to notice that a server that was away is back."""
RETRY_AFTER_SECONDS_MAX: Final = 5.0
"""Upper limit for delays that a server requests: meanwhile the hub sees no changes."""
REOPEN_SECONDS_MAX: Final = 0.5
"""Pause between watches that open successfully and end immediately."""
HEALTHY_SECONDS: Final = 1.0
"""A watch that lasted this long counts as working, even if nothing happened."""
REJECTIONS_MAX: Final = 3
"""Attempts with the same version that end in errors or invalid data, before a new list."""
AWAY_SECONDS_MAX: Final = 60.0
"""After a longer absence the server may have been restored and already be past our version."""
SILENCE_SECONDS_MIN: Final = 3.0
"""Silence allowed after a change.  Each silence in which nothing was missed doubles it."""
SILENCE_SECONDS_MAX: Final = 75.0
"""A server that sends bookmarks sends one each minute."""


class WatchBackoff:
    """The backoff of one watch.  ``now`` is always seconds of one monotonic clock."""

    def __init__(self, *, retry_seconds: float = RETRY_SECONDS) -> None:
        self._base = retry_seconds
        self._opened_at = 0.0
        self._away_since: float | None = None
        self._failures = self._fruitless = self.rejections = 0
        self.silence_seconds = SILENCE_SECONDS_MIN
        """If no line arrives for this long, the watch may be dead and is reopened."""

    @property
    def was_away(self) -> bool:
        """Whether the last attempt did not reach the server, which may therefore have been restored."""
        return self._failures > 0

    def was_away_long(self, now: float) -> bool:
        return self._away_since is not None and now - self._away_since >= AWAY_SECONDS_MAX

    def opened(self, now: float) -> None:
        """The server accepted the watch."""
        self._opened_at, self._failures, self._away_since = now, 0, None

    def listed(self) -> None:
        self._failures, self._away_since = 0, None

    def progressed(self) -> None:
        """A change arrived; call this for each one."""
        self.silence_seconds = SILENCE_SECONDS_MIN
        self._fruitless = self.rejections = 0

    def suspect(self) -> None:
        """Another watch broke: if this one is silent, reopen it soon."""
        self.silence_seconds = SILENCE_SECONDS_MIN

    def went_silent(self) -> None:
        """The watch is reopened; if nothing was missed, it may be silent twice as long next time."""
        self.silence_seconds = min(2 * self.silence_seconds, SILENCE_SECONDS_MAX)

    def ended(self, now: float, *, progressed: bool) -> float:
        """An open watch ended.  Returns seconds until it is reopened at the same version."""
        if progressed or now - self._opened_at >= HEALTHY_SECONDS:
            self._fruitless = self.rejections = 0
            return 0.0
        self._fruitless += 1
        return _doubled(self._base / 4, self._fruitless, REOPEN_SECONDS_MAX)

    def rejected(self) -> tuple[float, bool]:
        """The server sent an error or invalid data instead of changes.

        Returns (seconds to wait, whether to list again).
        """
        self.rejections += 1
        wait = _doubled(self._base, self.rejections, RETRY_AFTER_SECONDS_MAX)
        return wait, self.rejections % REJECTIONS_MAX == 0

    def failed(self, now: float, *, retry_after: float | None, uniform: float) -> float:
        """The server is away or busy.  Returns seconds until the next attempt; ``uniform`` from [0, 1) adds jitter."""
        self._failures += 1
        if self._away_since is None:
            self._away_since = now
        wait = _doubled(self._base, self._failures, RETRY_SECONDS_MAX) * (0.5 + uniform / 2)
        return min(max(wait, retry_after or 0.0), RETRY_AFTER_SECONDS_MAX)


def _doubled(base: float, times: int, limit: float) -> float:
    return float(min(base * 2 ** min(times, 32), limit))
