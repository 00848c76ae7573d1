"""In which order connections that were not read are read again: one after the other, the longest held first.

Read all at once, one that floods would use up the room that became free before the others are looked at, every time:
they would never be read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol


class WaitingConnection(Protocol):
    """A connection, as this sees it."""

    def pressed(self) -> None:
        """Whether it should be read has changed."""
        ...


class Turns:
    """``soon`` calls what it is given after sockets were looked at once; ``is_pressed``: nothing is to be read now."""

    def __init__(self, *, soon: Callable[[Callable[[], None]], object], is_pressed: Callable[[], bool]) -> None:
        self._soon = soon
        self._is_pressed = is_pressed
        self._held: dict[WaitingConnection, None] = {}
        self._is_going = False

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, connections: Iterable[WaitingConnection]) -> None:
        """These are not read; those that had no turn since the last time stay in front."""
        for each in connections:
            self._held.setdefault(each)
            each.pressed()

    def gone(self, connection: WaitingConnection) -> None:
        """Nothing more comes from it."""
        self._held.pop(connection, None)

    def go_on(self) -> None:
        """There is room again."""
        if not self._is_going:
            self._is_going = True
            self._next()

    def _next(self) -> None:
        if self._is_pressed() or not self._held:
            self._is_going = False
            return
        connection = next(iter(self._held))
        del self._held[connection]
        connection.pressed()
        self._soon(self._next)
