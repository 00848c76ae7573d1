"""Which rows a reader may see (seed: transactional messaging, "Consuming").

A reader stops at the first undecided row, so every reader sees one and the same sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class Decision(Enum):
    """ACCEPT: show the row.  SKIP: it will never be shown.  HOLD: undecided, end the scan."""

    ACCEPT = 1
    SKIP = 2
    HOLD = 3


Decide = Callable[[int], Decision]
"""Decision for the pointer of a row, negative when it was rolled back."""
