"""Up to where one queue is done: the offset up to and including which nothing is left to do.

It never falls.  Offsets are integers from 0; ``NOTHING_DONE`` lies before the first.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

NOTHING_DONE: Final = -1


class Checkpointer:
    """The arithmetic of one queue's checkpoint; where it is kept is the outbox's business."""

    __slots__ = ("offset",)

    def __init__(self, offset: int = NOTHING_DONE) -> None:
        self.offset = offset

    def admits(self, offset: int) -> bool:
        """Is this offset still to be done?"""
        return offset > self.offset

    def commit(self, succeeded: Collection[int], remaining: Collection[int] = ()) -> int:
        """These offsets are done and those of the same batch are not; returns the checkpoint.

        Without remains it is the highest done; otherwise the highest done below the lowest that remains, so that
        a success behind a failure does not hide the failure.
        """
        below = min(remaining, default=None)
        done = [offset for offset in succeeded if below is None or offset < below]
        self.offset = max(self.offset, *done) if done else self.offset
        return self.offset
