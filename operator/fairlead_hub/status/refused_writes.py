"""Documents the API server refused: each is tried again until it is written or not wanted, ever slower.

    refused ─▶ waits 1, 2, 4 … 30 s ─may_try─▶ written: all that were refused are tried at once
                                            └▶ refused

Rights come back, namespaces and definitions are made, policies are mended; no event says so.  A few are tried at once:
thousands that are refused for one reason must not keep the API server busy with refusing.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from fairlead_wire.backoff import Backoff

BACKOFF: Final = Backoff(1.0, 30.0)
TRIES_MAX: Final = 8
"""Refused documents tried again in one turn."""
REASON_CHARS_MAX: Final = 500

Name = tuple[str, str, str]
"""(collection, namespace, name), as in ``status_cache``."""


class RefusedWrite(msgspec.Struct, kw_only=True):
    """One document's; times are seconds of the monotonic clock."""

    reason: str
    since: float
    next_try: float
    times: int = 1
    released: bool = False
    """Another one was written since: what stood in the way may be gone."""


class RefusedWrites:
    """See the module.  ``now`` is always seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._refused: dict[Name, RefusedWrite] = {}
        self._groups: Counter[tuple[str, str]] = Counter()
        self._tries = 0

    def __len__(self) -> int:
        return len(self._refused)

    def refused(self, name: Name, reason: str, now: float) -> bool:
        """True for the first of a collection in a namespace: worth a line in the log."""
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
        """A new turn: a few may be tried again."""
        self._tries = 0

    def may_try(self, name: Name, now: float) -> bool:
        """Ask once a turn for each; a yes takes one of the turn's tries where it was refused before."""
        known = self._refused.get(name)
        if known is None or known.released:
            return True
        if known.next_try > now or self._tries >= TRIES_MAX:
            return False
        self._tries += 1
        return True

    def written(self, name: Name) -> None:
        """If it had been refused, whatever stood in the way is gone, perhaps for others, too."""
        if self.forget(name):
            for one in self._refused.values():
                one.released = True

    def forget(self, name: Name) -> bool:
        """It is not wanted any more, or written.  True when it had been refused."""
        if self._refused.pop(name, None) is None:
            return False
        self._groups -= Counter((name[:2],))
        return True

    def oldest(self) -> RefusedWrite | None:
        """Refused for the longest time."""
        return min(self._refused.values(), key=lambda one: one.since, default=None)
