"""Places for requests that wait, shared by the modules of a node: one module alone cannot take them all.

A module may hold as many as are free. One that is greedy gets half of them, the next one half of what is left, and so
on; as they give places back, all come to the same number. One that holds none gets a place while any is free.
Where modules have no names of their own all are one, which may have all places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class NoPlace(Exception):
    """For people: which limit was met."""


class WaitingPlaces:
    """Not thread-safe.  ``has_names``: modules have names of their own."""

    def __init__(self, limit: int, *, has_names: bool) -> None:
        self._limit = limit
        self._has_names = has_names
        self._held: Counter[Hashable] = Counter()

    def __len__(self) -> int:
        """How many are taken."""
        return self._held.total()

    @contextmanager
    def held_by(self, module: Hashable) -> Iterator[None]:
        """One place for this module, while it lasts.  Raises ``NoPlace``."""
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
            return f"all {self._limit} places for requests that wait are taken"
        held = self._held[module]
        if self._has_names and held >= free:
            return f"this module holds {held} of {self._limit} places for requests that wait, and {free} are free"
        return ""
