"""Documents the API server refused: each is retried with growing delays until it is written or no longer wanted.

    refused ─▶ waits 1, 2, 4 … 30 s ─may_try─▶ written: all refused documents are retried immediately
                                       └▶ refused

Permissions are restored, namespaces and definitions created, policies fixed; no event announces that.  Only a few are
retried at once: thousands that are refused for one reason must not keep the API server busy.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from fairlead_wire.backoff import Backoff

BACKOFF: Final = Backoff(1.0, 30.0)
TRIES_MAX: Final = 8
"""Refused documents retried in one turn."""
REASON_CHARS_MAX: Final = 500

Name = tuple[str, str, str]
"""(collection, namespace, name), as in ``status_cache``."""


class RefusedWrite(msgspec.Struct, kw_only=True):
    """The state of one document; times are seconds of the monotonic clock."""

    reason: str
    since: float
    next_try: float
    times: int = 1
    released: bool = False
    """Another document was written since, so the obstacle may be gone."""


class RefusedWrites:
    """See the module docstring.  ``now`` is always seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._refused: dict[Name, RefusedWrite] = {}
        self._groups: Counter[tuple[str, str]] = Counter()
        self._tries = 0

    def __len__(self) -> int:
        return len(self._refused)

    def refused(self, name: Name, reason: str, now: float) -> bool:
        """Returns True for the first of a collection in a namespace, which should be logged."""
        reason = reason[:REASON_CHARS_MAX]
        known = self._refused.get(name)
        if known is None:
            self._refused[name] = RefusedWrite(reason=reason, since=now, next_try=now + BACKOFF.ceiling(0))
            self._groups[name[:2]] += 1
            return self._groups[name[:2]] == 1
        known.reason, known.times, known.released = reason, known.times + 1, False
        known.next_try = now + BACKOFF.ceiling(known.times - 1)
        return False

    def turn(self) -> None:
        """A new turn begins, with new retries."""
        self._tries = 0

    def may_try(self, name: Name, now: float) -> bool:
        """Call once per turn and document; True uses one of the turn's retries if the document was refused before."""
        known = self._refused.get(name)
        if known is None or known.released:
            return True
        if known.next_try > now or self._tries >= TRIES_MAX:
            return False
        self._tries += 1
        return True

    def written(self, name: Name) -> None:
        """If it had been refused, the obstacle is gone, perhaps for others, too."""
        if self.forget(name):
            for one in self._refused.values():
                one.released = True

    def forget(self, name: Name) -> bool:
        """It is no longer wanted, or was written.  Returns True if it had been refused."""
        if self._refused.pop(name, None) is None:
            return False
        self._groups -= Counter((name[:2],))
        return True

    def oldest(self) -> RefusedWrite | None:
        """The document that has been refused for the longest time."""
        return min(self._refused.values(), key=lambda one: one.since, default=None)
