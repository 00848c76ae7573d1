"""Many names and little time: each comes once before any comes again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence


class RoundRobin:
    """Names in their order, as many at a time as there is time for."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._next = 0

    def take(self, seconds: float) -> Iterator[str]:
        """All of them once, beginning where the last time ended; no further one after ``seconds``."""
        deadline = time.monotonic() + seconds
        for _ in self._names:
            name = self._names[self._next % len(self._names)]
            self._next += 1
            yield name
            if time.monotonic() > deadline:
                return
