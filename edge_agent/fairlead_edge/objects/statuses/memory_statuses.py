"""The twin of the statuses on disk, for tests and the simulation."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fairlead_edge.objects.kinds import Kind
from fairlead_edge.objects.metastore import HeldObject
from fairlead_edge.objects.statuses import allowed, reported, status_store
from fairlead_edge.objects.statuses.allowed import KnownStatusRules
from fairlead_edge.objects.statuses.patch import StatusPatch
from fairlead_edge.objects.statuses.reported import EdgeReportedStatus
from fairlead_edge.objects.statuses.status_store import Key, Outgoing, StatusSummary
from fairlead_edge.objects.watch_history import VersionedChange, WatchHistory


class MemoryStatuses:
    """Over the objects of a ``MemoryMetastore``, which it changes in place."""

    def __init__(self, objects: dict[Key, HeldObject], log: WatchHistory[HeldObject]) -> None:
        self._objects, self._log = objects, log
        self._kept: dict[Key, EdgeReportedStatus] = {}
        self._sequence = 0
        self._listeners: list[Callable[[StatusSummary], None]] = []
        self.known = KnownStatusRules()

    def taken_over(self, before: MemoryStatuses) -> None:
        """The same disk after a restart."""
        self._kept, self._sequence, self.known = dict(before._kept), before._sequence, before.known

    def listen(self, listener: Callable[[StatusSummary], None]) -> None:
        self._listeners.append(listener)

    async def told(self, content: bytes, digest: str) -> None:
        self.known = allowed.read(content, digest)

    async def patch(self, key: Key, version: str, kind: Kind, patch: StatusPatch, now: float) -> HeldObject:
        kept = self._kept.get(key)
        held, after = status_store.decide(
            self._objects.get(key), kept, key=key, version=version, kind=kind, patch=patch, known=self.known,
            sequence=self._sequence + 1, now=now,
        )  # fmt: skip
        if after is None:
            return held
        others = [len(msgspec.json.encode(each)) for other, each in self._kept.items() if other != key]
        status_store.check_room(len(others), sum(others) + len(msgspec.json.encode(after)))
        if patch.dry_run:
            return status_store.with_status(held, after)
        self._sequence += 1
        self._kept[key] = after
        version_now = self._log.version + 1
        current = status_store.with_status(msgspec.structs.replace(held, local_version=version_now), after)
        self._objects[key] = current
        self._log.append(VersionedChange(version=version_now, previous=held, current=current))
        for listener in self._listeners:
            listener(status_store.line(key, after))
        return current

    async def lines(self) -> list[StatusSummary]:
        found = [status_store.line(key, kept) for key, kept in self._kept.items()]
        return sorted(found, key=lambda line: line.sequence)

    async def outgoing(self, key: Key) -> Outgoing | None:
        return status_store.outgoing(self._objects.get(key), self._kept.get(key))

    async def settle(self, key: Key, uid: str, sequence: int, *, code: str = "", reason: str = "") -> None:
        kept = self._kept.get(key)
        if kept is None or kept.uid != uid:
            return
        self._kept[key] = after = reported.settled(kept, sequence, code=code, reason=reason)
        self._objects[key] = status_store.with_status(self._objects[key], after)

    def forget(self, key: Key) -> None:
        """Its object is gone."""
        self._kept.pop(key, None)
