"""The ownership of a shard: which instance writes it, and whether that is still this one.

    epoch    grows with every owner; every write to the journal names it, so that previous owners cannot write
    lease    while it is confirmed no other instance takes over, so that this instance reads the newest state

The epoch keeps the rows correct regardless of clocks; the lease only decides who waits for whom.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.io.stores.cassandra.journal import Journal, ShardState
from fairlead_messaging.server.io.stores.cassandra.session import UnknownOutcome
from fairlead_wire.io import logs

LEASE_SECONDS: Final = 6.0
"""How long an owner may read after it was last confirmed."""
MARGIN_SECONDS: Final = 1.5
"""How much longer another instance waits before it takes over."""
BEAT_SECONDS: Final = 1.5
CHECK_SECONDS: Final = 0.25
SIGNS_OF_LIFE: Final = 2
"""How many beats of the owner keep another from starting: one may have been pending when the owner ended."""

_log = logs.get("messaging.cassandra")


def steady_clock() -> float:
    """A monotonic clock that includes time in suspend, where the system has one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def pause(seconds: float) -> None:
    """Wait while another instance may still be the owner."""
    time.sleep(seconds)


class TakenOver(StorageError):
    """Another instance is the owner."""


class Ownership:
    """Only one thread may change it at a time; any may call ``is_confirmed``."""

    def __init__(
        self,
        journal: Journal,
        instance: str,
        name: str,
        on_lost: Callable[[], None],
        clock: Callable[[], float] = steady_clock,
    ) -> None:
        self._journal = journal
        self._on_lost = on_lost
        self.instance = instance
        self._name = name
        self._clock = clock
        self.epoch = 0
        self._beats = 0
        self._confirmed_at = -LEASE_SECONDS
        self._rival: ShardState | None = None
        self._rival_since = 0.0
        self.taken_by = ""
        """The instance that writes instead of this one."""

    def is_confirmed(self) -> bool:
        """Whether no other instance can have taken over yet."""
        return not self.taken_by and self._clock() - self._confirmed_at < LEASE_SECONDS

    def needs_beat(self) -> bool:
        return self._clock() - self._confirmed_at >= BEAT_SECONDS

    def read(self) -> ShardState:
        """The state in the journal.  Raises: StorageError."""
        return self._journal.read()

    def is_ours(self, state: ShardState) -> bool:
        return state.owner == self.instance

    def may_take(self, state: ShardState) -> bool:
        """Whether its owner released it, or was not confirmed for a whole lease while we watched."""
        if not state.owner or self.is_ours(state):
            return True
        now = self._clock()
        before = self._rival
        if before is None or before[:6] != state[:6]:
            self._rival, self._rival_since = state, now
            return False
        return now - self._rival_since >= LEASE_SECONDS + MARGIN_SECONDS

    def take(self, state: ShardState) -> ShardState:
        """Become the owner with the next epoch; returns the new state.  Raises: TakenOver, StorageError."""
        began = self._clock()
        if not self._journal.take(state, self.instance, self._name):
            raise self.lost(self._journal.read())
        found = self._journal.read()
        if not self.is_ours(found):
            raise self.lost(found)
        self.epoch, self._beats, self._confirmed_at = found.epoch, found.beat, began
        self._rival, self.taken_by = None, ""
        return found

    def wait_and_take(self) -> ShardState:
        """Become the owner at the start; waits for one that may have crashed.  Raises: TakenOver if it is alive."""
        began = self._clock()
        signs = 0
        while True:
            before, looked = self._rival, self._clock()
            state = self._journal.read()
            self._rival_since += (
                self._clock() - looked
            )  # while Cassandra does not answer, the owner cannot write either
            if self.may_take(state):
                try:
                    return self.take(state)
                except UnknownOutcome:
                    if self._clock() - began >= LEASE_SECONDS:
                        raise
                    continue
            signs += before is not None and self._rival is not before
            if signs >= SIGNS_OF_LIFE:
                raise TakenOver(
                    f"cassandra: this keyspace is in use by {state.owner_name}, which is alive; stop that process, or "
                    "give this service another keyspace"
                )
            if before is None:
                _log.info("waiting_for_owner", owner=state.owner_name, seconds=LEASE_SECONDS + MARGIN_SECONDS)
            pause(CHECK_SECONDS)

    def beat(self, applied: int) -> None:
        """Confirm the ownership.  Raises: TakenOver, StorageError."""
        began = self._clock()
        self._beats += 1
        if not self._journal.beat(self.epoch, self._beats, applied):
            raise self.lost(self._journal.read())
        self._confirmed_at = began

    def commit(self, number: int, applied: int, raw: bytes) -> bool:
        """Whether the batch is durable; False: this epoch is over.  Raises: UnknownOutcome, StorageError."""
        began = self._clock()
        if not self._journal.commit(self.epoch, number, applied, raw):
            return False
        self._confirmed_at = began
        return True

    def release(self, applied: int) -> None:
        """Let another take over at once."""
        if not self.taken_by:
            self._journal.release(self.epoch, applied)

    def lost(self, state: ShardState) -> StorageError:
        """The error to raise when the ownership was lost; remembers who took over."""
        if self.is_ours(state):
            return StorageError("cassandra: this instance has taken over again meanwhile; try again")
        if not self.taken_by:
            self._on_lost()
        self.taken_by = state.owner_name or "another instance, which ended"
        self.may_take(state)  # begins to watch the new owner
        return TakenOver(f"cassandra: {self.taken_by} took over; this instance refuses all writes")
