"""Which messages of a batch make it fail: halved, again and again, until each stands alone.

    whole fails → left passes, right fails → … → one message, and the reason it fails with

Nothing here knows how a range is tried or cut: ``search`` asks for one trial after the other, ``split`` cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from fairlead_ingest.source.offset_ranges import OffsetRange

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
