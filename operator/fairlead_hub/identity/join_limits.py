"""How often a join may be tried: a guess costs the guesser time, and nodes that open sessions nothing.

    attempt ─▶ ATTEMPTS_PER_SECOND for this hub ─▶ not locked ─▶ judged ─▶ wrong secret: counted
                                                                        └─ FAILURES_MAX of one token: locked

130 random bits are guessed by none; the limits keep a guesser from being a load, and are seen in metrics and log.
Attempts with the id of a token that exists are counted apart, so that made-up ids do not keep devices out.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from fairlead_hub.token_bucket import TokenBucket

ATTEMPTS_PER_SECOND: Final = 10.0
ATTEMPTS_AT_ONCE: Final = 20
FAILURES_MAX: Final = 20
LOCKED_SECONDS: Final = 600.0
COUNTED_MAX: Final = 10_000
"""Tokens with failures that are remembered; the oldest is forgotten first."""


class JoinLimits:
    """``now`` is always seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._known, self._unknown = (TokenBucket(ATTEMPTS_PER_SECOND, ATTEMPTS_AT_ONCE) for _ in range(2))
        self._failures: OrderedDict[str, int] = OrderedDict()
        self._locked: OrderedDict[str, float] = OrderedDict()
        """Id → until when."""

    def take(self, now: float, *, is_known: bool) -> float:
        """0: this attempt may be judged.  Else after how many seconds another may come.

        ``is_known``: there is a token of this id.
        """
        bucket = self._known if is_known else self._unknown
        if bucket.has_one(now):
            bucket.take(now)
            return 0.0
        return bucket.next_at(now) - now

    def locked(self, id: str, now: float) -> float:
        """How long this token is locked still; 0: it is not."""
        until = self._locked.get(id, now)
        if until <= now:
            self._locked.pop(id, None)
        return max(0.0, until - now)

    def failed(self, id: str, now: float) -> bool:
        """A wrong secret for a token that exists.  True: now it is locked."""
        self._failures[id] = self._failures.pop(id, 0) + 1
        if self._failures[id] >= FAILURES_MAX:
            del self._failures[id]
            self._locked[id] = now + LOCKED_SECONDS
            _forget_oldest(self._locked)
            return True
        _forget_oldest(self._failures)
        return False

    def passed(self, id: str) -> None:
        """The right secret."""
        self._failures.pop(id, None)


def _forget_oldest(table: OrderedDict[str, int] | OrderedDict[str, float]) -> None:
    while len(table) > COUNTED_MAX:
        table.popitem(last=False)
