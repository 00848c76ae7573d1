"""What to do after a query has failed: wait and try again, find the message that causes it by halving, or stop.

Only failures of one batch for one cause, one after the other and not long apart, count together. An error with one of
our codes says itself whether waiting helps; one without may be a worker that was killed, or one message that none of
our codes covers.

    1st the same   wait        it may have been the machine
    2nd            halve       the batch is halved until the message stands alone
    6th            stop        someone has to look

    whole fails → left passes, right fails → … → one message, and the reason it fails with

``search`` does not know how a range is tried or cut: it asks for one trial after the other, ``split`` cuts.

A store or a catalog that refuses credentials it took before is waited for, as long as it takes to renew them:
``DENIED_SECONDS``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from enum import Enum

from fairlead_ingest import errors
from fairlead_ingest.source.offset_ranges import OffsetRange

RETRY_SECONDS_FIRST = 1.0
RETRY_SECONDS_MAX = 15.0
DOUBLED_MAX = 10
# Failures without a code are tried again this often in a row.
UNKNOWN_FAILURES_MAX = 5
HALVED_AT = 2
# A failure this long after the one before has nothing to do with it.
RESET_SECONDS = 900.0
# Credentials that were good end, or are replaced: what renews them in their files or elsewhere has this long.
DENIED_SECONDS = 900.0
# What differs between two failures for one cause: places, identities, times.
_CHANGING = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}|[0-9]+", re.IGNORECASE)


class Next(Enum):
    """WAIT: try again later.  HALVE: look for the message first.  STOP: nothing heals by itself."""

    WAIT = 1
    HALVE = 2
    STOP = 3


@dataclass(slots=True)
class Failures:
    """Those of one pipeline since it last got anywhere."""

    _tries: int = 0
    _same: int = 0
    _seen: tuple[int, str] | None = None
    _last: float = 0.0
    _has_worked: bool = False
    _denied_since: float | None = None

    def progressed(self) -> None:
        """A batch was committed: what was before is over."""
        self._has_worked, self._denied_since = True, None
        self._forget()

    def answered(self) -> None:
        """The query has come through its start, so that table and store were asked and answered."""
        self._has_worked = True

    def note(self, code: str | None, sentence: str, batch: int, now: float) -> Next:
        """One more failure, of ``batch``, at ``now`` (seconds of a clock that never goes back)."""
        if self._tries and now - self._last > RESET_SECONDS:
            self._forget()
        self._last = now
        self._tries += 1
        if self.renewal_seconds(code, now) is not None:
            self._denied_since = now if self._denied_since is None else self._denied_since
            return Next.WAIT
        if code is not None:
            return Next.WAIT if code in errors.TEMPORARY else Next.STOP
        cause = (batch, _CHANGING.sub("#", sentence))
        self._same = self._same + 1 if cause == self._seen else 1
        self._seen = cause
        if self._same > UNKNOWN_FAILURES_MAX:
            return Next.STOP
        return Next.HALVE if self._same == HALVED_AT else Next.WAIT

    def renewal_seconds(self, code: str | None, now: float) -> float | None:
        """How much longer new credentials are waited for, None where they are not: none was good, or it is over."""
        if code not in (errors.STORE_DENIED, errors.CATALOG_DENIED) or not self._has_worked:
            return None
        left = DENIED_SECONDS - (now - (now if self._denied_since is None else self._denied_since))
        return left if left > 0 else None

    def _forget(self) -> None:
        self._tries, self._same, self._seen = 0, 0, None

    @property
    def retry_seconds(self) -> float:
        """How long to wait before the next try."""
        # Bounded before it is taken: after a thousand failures, four hours, the power is no float any more.
        doubled = min(max(0, self._tries - 1), DOUBLED_MAX)
        return min(RETRY_SECONDS_MAX, RETRY_SECONDS_FIRST * float(2**doubled))


# More than this in one batch, and someone has to look: it is no single message any more.
FOUND_MAX = 100
# So many failures and never a pass: what fails is the pipeline, whatever the messages.
NEVER_PASSED_MAX = 8


class TooMany(Exception):
    """It is not single messages that fail; ``str()`` says what is known."""


def search(
    whole: Sequence[OffsetRange], split: Callable[[OffsetRange], Sequence[OffsetRange]]
) -> Generator[Sequence[OffsetRange], str | None, dict[OffsetRange, str]]:
    """Yields what to try, is sent the reason why it failed or None; returns the ranges that fail alone, with reasons.

    ``split`` gives a range's halves, one range where it can be cut no further, none where nothing is left of it.
    Raises ``TooMany``.
    """
    found: dict[OffsetRange, str] = {}
    passed = False
    reason = yield whole
    failing = [(list(whole), reason)] if reason is not None else []
    while failing:
        ranges, reason = failing.pop()
        assert reason is not None
        halves = _halves(ranges, split)
        if len(halves) < 2:
            found.update(dict.fromkeys([each for half in halves for each in half], reason))
            if len(found) >= NEVER_PASSED_MAX and not passed:
                raise TooMany(f"each message that was tried fails alone too: {reason}")
            if len(found) > FOUND_MAX:
                raise TooMany(f"more than {FOUND_MAX} messages of one batch fail: {reason}")
            continue
        # The first half is looked at first: what is pushed last comes off first.
        for half in reversed(halves):
            why = yield half
            passed = passed or why is None
            if why is not None:
                failing.append((half, why))
    return found


def _halves(
    ranges: list[OffsetRange], split: Callable[[OffsetRange], Sequence[OffsetRange]]
) -> list[list[OffsetRange]]:
    if len(ranges) > 1:
        middle = len(ranges) // 2
        return [ranges[:middle], ranges[middle:]]
    return [[half] for each in ranges for half in split(each)]
