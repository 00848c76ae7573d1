"""Places for waiting requests, shared by the modules of a node, so that no single module can take them all.

A module may hold as many places as are free.  So a greedy module gets half of them, the next one half of the rest, and
so on; as places are released, all converge to the same number.  A module without a place gets one while any is free.
If modules have no tokens, they count as one module, which may take all places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class NoPlace(Exception):
    """No place is free for this module; the text names the limit."""


class WaitingPlaces:
    """Counts waiting requests; not thread-safe.  With ``has_names``, each module is identified by its token."""

    def __init__(self, limit: int, *, has_names: bool) -> None:
        self._limit = limit
        self._has_names = has_names
        self._held: Counter[Hashable] = Counter()

    def __len__(self) -> int:
        """The number of waiting requests."""
        return self._held.total()

    @contextmanager
    def held_by(self, module: Hashable) -> Iterator[None]:
        """Hold one place for this module.  Raises ``NoPlace``."""
        why = self._refusal(module)
        if why:
            raise NoPlace(why)
        self._held[module] += 1
        try:
            yield
        finally:
            self._held[module] -= 1
            if not self._held[module]:
                del self._held[module]

    def _refusal(self, module: Hashable) -> str:
        free = self._limit - len(self)
        if free <= 0:
            return f"all {self._limit} places for waiting requests are taken"
        held = self._held[module]
        if self._has_names and held >= free:
            return f"this module holds {held} of {self._limit} places for waiting requests, and {free} are free"
        return ""
