"""Decides what to do after a query has failed: wait and retry, search for the failing message by halving, or stop.

The code of an error says whether waiting helps. An error without a code may be a killed worker, or a message that our
codes do not cover. Such failures count together if the same batch fails for the same cause several times in a row:

    1st failure    wait        it may have been the machine
    2nd            halve       the batch is halved until the failing message is alone
    6th            stop        a person has to look

    whole fails → left passes, right fails → … → one message, with the reason

``search`` asks for one trial after another, and ``split`` divides ranges; it does not know how either is done.

If a store or catalog refuses credentials that worked before, the pipeline waits for new ones up to ``DENIED_SECONDS``.
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
# How often the same failure without a code is retried.
UNKNOWN_FAILURES_MAX = 5
HALVED_AT = 2
# A failure this long after the previous one is counted separately.
RESET_SECONDS = 900.0
# How long to wait until expired or replaced credentials have been renewed.
DENIED_SECONDS = 900.0
# The parts of a message that differ between failures of the same cause: addresses, ids, times.
_CHANGING = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}|[0-9]+", re.IGNORECASE)


class Next(Enum):
    """WAIT: retry later. HALVE: search for the failing message. STOP: a person has to look."""

    WAIT = 1
    HALVE = 2
    STOP = 3


@dataclass(slots=True)
class Failures:
    """The failures of one pipeline since its last progress."""

    _tries: int = 0
    _same: int = 0
    _seen: tuple[int, str] | None = None
    _last: float = 0.0
    _has_worked: bool = False
    _denied_since: float | None = None

    def progressed(self) -> None:
        """A batch was committed, so earlier failures no longer count."""
        self._has_worked, self._denied_since = True, None
        self._forget()

    def answered(self) -> None:
        """The query has started, so the table and store accepted the credentials."""
        self._has_worked = True

    def note(self, code: str | None, sentence: str, batch: int, now: float) -> Next:
        """Note a failure of ``batch`` at ``now`` (seconds of a monotonic clock); returns what to do."""
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
        """How much longer to wait for new credentials; None if they never worked or the time is over."""
        if code not in (errors.STORE_DENIED, errors.CATALOG_DENIED) or not self._has_worked:
            return None
        left = DENIED_SECONDS - (now - (now if self._denied_since is None else self._denied_since))
        return left if left > 0 else None

    def _forget(self) -> None:
        self._tries, self._same, self._seen = 0, 0, None

    @property
    def retry_seconds(self) -> float:
        """How long to wait before the next try."""
        # Limit the exponent: after a thousand failures (four hours), the power would overflow a float.
        doubled = min(max(0, self._tries - 1), DOUBLED_MAX)
        return min(RETRY_SECONDS_MAX, RETRY_SECONDS_FIRST * float(2**doubled))


# With more failing messages than this in one batch, the problem is not single messages.
FOUND_MAX = 100
# After this many failing messages and no part that passed, the pipeline itself is to blame.
NEVER_PASSED_MAX = 8


class TooMany(Exception):
    """The failure is not caused by single messages; ``str()`` says why."""


def search(
    whole: Sequence[OffsetRange], split: Callable[[OffsetRange], Sequence[OffsetRange]]
) -> Generator[Sequence[OffsetRange], str | None, dict[OffsetRange, str]]:
    """A generator that yields ranges to try and is sent the reason of their failure, or None if they passed.

    Returns the ranges that fail alone, with reasons. ``split`` returns a range's halves, one range if it cannot be
    split further, none if it is empty. Raises ``TooMany``.
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
                raise TooMany(f"every message that was tried alone fails: {reason}")
            if len(found) > FOUND_MAX:
                raise TooMany(f"more than {FOUND_MAX} messages of one batch fail: {reason}")
            continue
        # Push the first half last, so that it is popped first.
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
