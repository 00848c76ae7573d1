"""One edge of a simulated world: the real ``EdgeSession`` over the in-memory store, on a disk that may misbehave.

Power may fail between any two effects: what was applied stays, what was not sent yet is never sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any, TypeVar, cast

from fairlead_edge.objects import session, session_events
from fairlead_edge.objects.memory_metastore import MemoryMetastore
from fairlead_edge.objects.metastore import Put, WriteRefused

T = TypeVar("T")


def run(awaitable: Awaitable[T]) -> T:
    """Run a coroutine of the in-memory store, which never waits."""
    try:
        cast(Coroutine[Any, Any, T], awaitable).send(None)
    except StopIteration as stopped:
        return cast(T, stopped.value)
    raise AssertionError("a memory twin waited for something")


class PowerFailed(Exception):
    """The node lost power between two effects."""


class Edge:
    """``disk`` survives crashes; ``sync`` lives as long as a connection.

    ``acks_before_commit`` plants the classic mistake, to show that the laws notice it.
    """

    def __init__(
        self,
        name: str,
        random: Random,
        schedule: Callable[[float, Callable[[], None]], None],
        now: Callable[[], float],
        *,
        acks_before_commit: bool,
        power_fails: Callable[[], bool],
    ) -> None:
        self.name = name
        self.disk = MemoryMetastore()
        self.older_disk: MemoryMetastore | None = None
        self.sync: session.EdgeSession | None = None
        self.ever_durable: set[tuple[str, str]] = set()
        """(UID, digest) of everything that was ever committed here."""
        self._random = random
        self._schedule = schedule
        self._now = now
        self._acks_before_commit = acks_before_commit
        self._power_fails = power_fails
        self.retry_at = 0.0
        """When it comes back."""
        self._send: Callable[[bytes], None] = lambda frame: None

    def held(self) -> dict[str, tuple[str, str]]:
        """Resource path → (UID, digest), as on disk."""
        return {entry.resource: (entry.uid, entry.digest) for entry in run(self.disk.entries(0, frozenset({0})))}

    def connect(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        current = self.sync = session.EdgeSession(
            node=self.name,
            agent="sim",
            store_epoch=self._random.getrandbits(53),
            fence=run(self.disk.fence()),
            now=self._now(),
        )
        self.handle(current, session_events.Connected())
        self._tick(current)

    def _tick(self, current: session.EdgeSession) -> None:
        if self.sync is current:
            self.handle(current, session_events.Ticked())
            due = max(current.next_tick(), self._now() + 0.01)
            self._schedule(due, lambda: self._tick(current))

    def disconnect(self) -> None:
        self.sync = None

    def crash(self) -> None:
        """The power fails: only the disk is left."""
        self.sync = None
        self.disk = self.disk.reopened(int(self._now() * 1000))

    def wipe(self) -> None:
        self.sync = None
        self.disk = MemoryMetastore()

    def copy_disk(self) -> None:
        self.older_disk = self.disk.reopened(0)

    def fill(self, bytes_max: int) -> None:
        """Limit the disk to ``bytes_max`` from now on."""
        self.disk._bytes_max = bytes_max

    def restore_disk(self) -> None:
        if self.older_disk is not None:
            self.sync = None
            self.disk = self.older_disk.reopened(0)

    def handle(self, current: session.EdgeSession, event: session_events.Event) -> bool:
        """Give the event to this connection's core and perform its effects; returns False if the connection ended."""
        if self.sync is not current:
            return False
        try:
            for effect in current.handle(event, self._now()):
                if self._power_fails():
                    raise PowerFailed
                if not self._perform(current, effect):
                    return False
        except PowerFailed:
            self.crash()
            return False
        return True

    def _perform(self, current: session.EdgeSession, effect: session_events.Effect) -> bool:
        match effect:
            case session_events.SendFrame():
                self._send(effect.frame)
            case session_events.Apply():
                self._apply(current, effect)
            case session_events.PersistFence():
                run(self.disk.persist_fence(effect.fence))
                self._later(current, lambda: session_events.FencePersisted())
            case session_events.Summarise():
                self._later(current, lambda: session_events.Summarised(run(self.disk.summary(effect.bits))))
            case session_events.ListEntries():
                self._later(
                    current, lambda: session_events.EntriesListed(run(self.disk.entries(effect.bits, effect.buckets)))
                )
            case session_events.Close():
                self.sync = None
                self.retry_at = self._now() + (effect.retry_after or 0.0)
                return False
            case session_events.SessionOpened() | session_events.Answered():
                pass
        return True

    def _apply(self, current: session.EdgeSession, effect: session_events.Apply) -> None:
        disk = self.disk

        def commit() -> list[Any]:
            outcomes = run(disk.apply(effect.writes, self._now()))
            for write, outcome in zip(effect.writes, outcomes, strict=True):
                if isinstance(write, Put) and not isinstance(outcome, WriteRefused):
                    self.ever_durable.add((write.uid, write.digest))
            return outcomes

        if self._acks_before_commit:
            # The planted mistake: the answer is sent now, and the write happens later, if the power lasts.
            outcomes = run(disk.reopened(0).apply(effect.writes, self._now()))

            def commit_later() -> None:
                if self.disk is disk:
                    commit()

            self._schedule(self._now() + 0.05, commit_later)
            self.handle(current, session_events.Applied(outcomes))
            return
        self._later(current, lambda: session_events.Applied(commit()))

    def _later(self, current: session.EdgeSession, event: Callable[[], session_events.Event]) -> None:
        """Perform it after the disk's delay; after a crash before that, nothing has happened."""

        def happen() -> None:
            if self.sync is current:
                self.handle(current, event())

        self._schedule(self._now() + self._random.uniform(0.0001, 0.05), happen)
