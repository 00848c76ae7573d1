"""The changes since the store was opened: in memory, bounded, newest last.

Watches read it, and later pages of a list are rewound with it to the version of the first page.  It is not on disk:
after a restart of the agent a watcher gets 410 and lists again, which is local and cheap, while a log on disk would
cost each update a second write.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from fairlead_wire.errors import FairleadError

CHANGES_MAX: Final = 4096
BYTES_MAX: Final = 16 * 1024 * 1024
"""Contents kept in memory by the log; beyond either limit, the oldest changes are dropped."""


class HistoryExpired(FairleadError):
    """The requested history is not available (any more); the client must list again.  Kubernetes answers 410."""


class Sized(Protocol):
    @property
    def content(self) -> bytes: ...
    @property
    def status(self) -> bytes: ...


Object = TypeVar("Object", bound=Sized)


class VersionedChange(msgspec.Struct, Generic[Object], frozen=True, kw_only=True):
    """One change at ``version``: created (no ``previous``), deleted (no ``current``), or replaced."""

    version: int
    previous: Object | None
    current: Object | None

    @property
    def subject(self) -> Object:
        """The current object, or the deleted one."""
        found = self.current if self.current is not None else self.previous
        assert found is not None
        return found


class WatchHistory(Generic[Object]):
    """The changes after ``floor`` up to ``version``.  Listeners are called for each new one and must not raise."""

    def __init__(self, version: int, *, changes_max: int = CHANGES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self.floor = version
        self.version = version
        self._changes: deque[VersionedChange[Object]] = deque()
        self._bytes = 0
        self._changes_max = changes_max
        self._bytes_max = bytes_max
        self._listeners: list[Callable[[VersionedChange[Object]], None]] = []

    def append(self, change: VersionedChange[Object]) -> VersionedChange[Object]:
        """Add a durable change; versions must rise.  A change from before a loss is only passed to listeners."""
        if change.version > self.version:
            self.version = change.version
            self._changes.append(change)
            self._bytes += _size(change)
        else:
            assert change.version < self.floor
        while len(self._changes) > self._changes_max or (self._bytes > self._bytes_max and len(self._changes) > 1):
            dropped = self._changes.popleft()
            self._bytes -= _size(dropped)
            self.floor = dropped.version
        for listener in tuple(self._listeners):
            listener(change)
        return change

    def lose(self, version: int) -> None:
        """Drop the history: watchers get ``HistoryExpired`` and start again at ``version``."""
        self.floor = self.version = max(version, self.version)
        self._changes.clear()
        self._bytes = 0

    def since(self, version: int, *, bytes_max: int | None = None) -> list[VersionedChange[Object]]:
        """Changes above ``version``, oldest first; with ``bytes_max``, only the first ones that reach this size.

        Raises ``HistoryExpired`` if some of them were dropped.
        """
        if not self.floor <= version <= self.version:
            raise HistoryExpired(f"version {version} is outside of the history, {self.floor} to {self.version}")
        found: list[VersionedChange[Object]] = []
        for change in reversed(self._changes):
            if change.version <= version:
                break
            found.append(change)
        found.reverse()
        if bytes_max is not None:
            for taken, size in enumerate(itertools.accumulate(map(_size, found)), start=1):
                if size >= bytes_max:
                    return found[:taken]
        return found

    def listen(self, listener: Callable[[VersionedChange[Object]], None]) -> Callable[[], None]:
        """Call ``listener`` for each change from now on; returns a function that stops this."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)


def _size(change: VersionedChange[Object]) -> int:
    states = (change.previous, change.current)
    return sum(len(state.content) + len(state.status) for state in states if state is not None)
