"""When a watch is opened again, how long it may be silent, and when its version is not worth another try.

    opened ─▶ moved_on … ─▶ ended | went_silent ─▶ from the same version, at once
       ▲                      rejected ───────────▶ from the same version, the third time from a new list
       └───────────────────── failed ─────────────▶ a pause that grows to seconds, never to minutes

A server ends watches that are slow or that it has no room for; that says nothing against the version.  What does: it
is called too old, it is rejected again and again, or the server was away so long that a list is the smaller risk.
"""

from __future__ import annotations

from typing import Final

from fairlead_wire.backoff import Backoff

RETRY_SECONDS: Final = 0.1
RETRY_SECONDS_MAX: Final = 3.0
"""A server that was away is noticed within this."""
RETRY_AFTER_SECONDS_MAX: Final = 5.0
"""Whatever a server asks for: a hub that waits longer is blind for longer."""
REOPEN_SECONDS_MAX: Final = 0.5
"""Between watches that are opened well and end at once."""
HEALTHY_SECONDS: Final = 1.0
"""A watch that lived so long was one, even if nothing happened."""
REJECTIONS_MAX: Final = 3
"""So often in a row the same version is tried against errors and nonsense."""
AWAY_SECONDS_MAX: Final = 60.0
"""A server that was away longer may be another one, restored and already beyond our version."""
SILENCE_SECONDS_MIN: Final = 3.0
"""After something happened; each silence that nothing was missed in doubles it."""
SILENCE_SECONDS_MAX: Final = 75.0
"""A server that sends bookmarks sends one each minute."""


class WatchBackoff:
    """One watch's; ``now`` is always seconds of one monotonic clock."""

    def __init__(self, *, retry_seconds: float = RETRY_SECONDS) -> None:
        self._base = retry_seconds
        self._opened_at = 0.0
        self._away_since: float | None = None
        self._failures = self._fruitless = self.rejections = 0
        self.silence_seconds = SILENCE_SECONDS_MIN
        """Without a line for this long, the watch may be a dead one: it is opened again."""

    @property
    def was_away(self) -> bool:
        """The last try did not get through: behind it may be a restored server."""
        return self._failures > 0

    def was_away_long(self, now: float) -> bool:
        return self._away_since is not None and now - self._away_since >= AWAY_SECONDS_MAX

    def opened(self, now: float) -> None:
        """The server watches for us."""
        self._opened_at, self._failures, self._away_since = now, 0, None

    def listed(self) -> None:
        self._failures, self._away_since = 0, None

    def moved_on(self) -> None:
        """A change came; call it for each."""
        self.silence_seconds = SILENCE_SECONDS_MIN
        self._fruitless = self.rejections = 0

    def suspect(self) -> None:
        """Another watch broke: if this one is silent, it is soon opened again."""
        self.silence_seconds = SILENCE_SECONDS_MIN

    def went_silent(self) -> None:
        """It is opened again; if nothing was missed, it may be silent twice as long."""
        self.silence_seconds = min(2 * self.silence_seconds, SILENCE_SECONDS_MAX)

    def ended(self, now: float, *, moved_on: bool) -> float:
        """An opened watch is over; seconds until it is opened again from where it was."""
        if moved_on or now - self._opened_at >= HEALTHY_SECONDS:
            self._fruitless = self.rejections = 0
            return 0.0
        self._fruitless += 1
        return Backoff(self._base / 4, REOPEN_SECONDS_MAX).ceiling(self._fruitless)

    def rejected(self) -> tuple[float, bool]:
        """An error or nonsense instead of changes: (seconds to wait, whether to list anew)."""
        self.rejections += 1
        wait = Backoff(self._base, RETRY_AFTER_SECONDS_MAX).ceiling(self.rejections)
        return wait, self.rejections % REJECTIONS_MAX == 0

    def failed(self, now: float, *, retry_after: float | None, uniform: float) -> float:
        """The server is away or busy; seconds until the next try.  ``uniform``: from [0, 1), so that not all march."""
        self._failures += 1
        if self._away_since is None:
            self._away_since = now
        wait = Backoff(self._base, RETRY_SECONDS_MAX).pause(self._failures, uniform)
        return min(max(wait, retry_after or 0.0), RETRY_AFTER_SECONDS_MAX)
