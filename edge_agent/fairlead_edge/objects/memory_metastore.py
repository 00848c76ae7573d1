"""The in-memory twin of the object store, with the same results and refusals, for tests and the simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from fairlead_edge.link_state import StaleHub
from fairlead_edge.objects.kinds import Kind
from fairlead_edge.objects.metastore import (
    FIRST,
    Absent,
    HeldObject,
    ObjectChunk,
    Outcome,
    Put,
    Remove,
    Removed,
    Stored,
    StoreSummary,
    Unchanged,
    Usable,
    anything,
    fallback,
    hold,
    key_of,
    opening_version,
    refused,
    same_content,
    store_full,
    summarise,
    verify,
)
from fairlead_edge.objects.statuses import reported, status_store
from fairlead_edge.objects.statuses.patch import StatusPatch
from fairlead_edge.objects.statuses.reported import EdgeReportedStatus
from fairlead_edge.objects.statuses.status_store import Key, KnownStatusRules, Outgoing, StatusSummary
from fairlead_edge.objects.watch_history import VersionedChange, WatchHistory
from fairlead_wire import message
from fairlead_wire.errors import LocalError, Permanent
from fairlead_wire.objects import digest


class MemoryMetastore:
    """Durable means that the call returned.  ``bytes_max`` limits the total size of contents."""

    def __init__(self, *, version: int = 1, bytes_max: int = 1 << 40, usable: Usable = anything) -> None:
        self._usable = usable
        self._objects: dict[tuple[str, str, str, str], HeldObject] = {}
        self._fallbacks: dict[tuple[str, str, str, str], HeldObject] = {}
        self._kinds: set[Kind] = set()
        self._log: WatchHistory[HeldObject] = WatchHistory(version)
        self._fence = 0
        self._stale_hub: StaleHub | None = None
        self._contact_at: float | None = None
        self._bytes_max = bytes_max
        self.statuses = MemoryStatuses(self._objects, self._log)

    @property
    def log(self) -> WatchHistory[HeldObject]:
        return self._log

    def reopened(self, version: int) -> MemoryMetastore:
        """The store after a restart: everything durable, and an empty change log."""
        opened = opening_version(self._log.version, version)
        again = MemoryMetastore(version=opened, bytes_max=self._bytes_max, usable=self._usable)
        again._objects.update(self._objects)
        again._kinds = set(self._kinds)
        again.statuses.taken_over(self.statuses)
        again._fallbacks = dict(self._fallbacks)
        again._fence, again._stale_hub, again._contact_at = self._fence, self._stale_hub, self._contact_at
        return again

    async def apply(self, writes: Sequence[Put | Remove], now: float) -> list[Outcome]:
        return [self._put(write, now) if isinstance(write, Put) else self._remove(write) for write in writes]

    async def persist_fence(self, fence: int) -> None:
        if fence < self._fence:
            raise LocalError(f"fence {fence} is lower than {self._fence}, which was obeyed before")
        self._fence, self._stale_hub = fence, None

    async def lower_fence(self, fence: int) -> None:
        self._fence, self._stale_hub = min(self._fence, fence), None

    async def stale_hub(self) -> StaleHub | None:
        return self._stale_hub

    async def persist_stale_hub(self, found: StaleHub) -> None:
        self._stale_hub = found

    async def fence(self) -> int:
        return self._fence

    async def summary(self, bits: int | None = None) -> StoreSummary:
        return summarise([(held.uid, held.digest) for held in self._objects.values()], bits)

    async def entries(self, bits: int, buckets: frozenset[int]) -> list[message.HeldEntry]:
        return sorted(
            (
                message.HeldEntry(held.resource.path, held.uid, held.digest, held.resource_version)
                for held in self._objects.values()
                if digest.bucket_of(held.uid, bits) in buckets
            ),
            key=lambda entry: entry.resource,
        )

    async def get(self, group: str, plural: str, namespace: str, name: str) -> HeldObject | None:
        return self._objects.get((group, plural, namespace, name))

    async def select(self, group: str, plural: str, namespace: str | None = None) -> tuple[list[HeldObject], int]:
        chunk = await self.select_chunk(group, plural, namespace)
        return chunk.objects, chunk.version

    async def select_chunk(
        self,
        group: str,
        plural: str,
        namespace: str | None = None,
        *,
        after: tuple[str, str] = FIRST,
        bytes_max: int | None = None,
    ) -> ObjectChunk:
        wanted = self._following(group, plural, namespace, after)
        taken, size = 0, 0
        while taken < len(wanted) and (bytes_max is None or size < bytes_max):
            size += len(wanted[taken].content) + len(wanted[taken].status)
            taken += 1
        return ObjectChunk(objects=wanted[:taken], version=self._log.version, more=taken < len(wanted))

    async def count(
        self, group: str, version: str, plural: str, namespace: str | None = None, *, after: tuple[str, str] = FIRST
    ) -> int:
        found = self._following(group, plural, namespace, after)
        return sum(held.resource.version == version for held in found)

    def _following(self, group: str, plural: str, namespace: str | None, after: tuple[str, str]) -> list[HeldObject]:
        return [
            held
            for key, held in sorted(self._objects.items())
            if key[:2] == (group, plural) and namespace in (None, key[2]) and key[2:] > after
        ]

    async def fallbacks(self, group: str, plural: str) -> list[HeldObject]:
        return [held for key, held in sorted(self._fallbacks.items()) if key[:2] == (group, plural)]

    async def kinds(self) -> list[Kind]:
        return sorted(self._kinds)

    async def touch(self, contact_at: float) -> None:
        self._contact_at = contact_at

    async def contact_at(self) -> float | None:
        return self._contact_at

    def _put(self, put: Put, now: float) -> Outcome:
        try:
            kind = verify(put)
        except Permanent as error:
            return refused(error)
        key = key_of(put.resource)
        previous = self._objects.get(key)
        if previous is not None and same_content(previous, put):
            self._objects[key] = msgspec.structs.replace(previous, resource_version=put.resource_version)
            return Unchanged()
        others = sum(len(held.content) for other, held in self._objects.items() if other != key)
        if others + len(put.content) > self._bytes_max:
            return store_full(self._bytes_max)
        version = self._log.version + 1
        current = hold(put, local_version=version, now=now, previous=previous)
        self._objects[key] = current
        if previous is not None and previous.uid != put.uid:
            self.statuses.forget(key)
        if previous is not None:
            match fallback(previous, put, self._usable):
                case "drop":
                    self._fallbacks.pop(key, None)
                case "take":
                    self._fallbacks[key] = previous
                case "keep":
                    pass
        self._kinds.add(kind)
        return Stored(change=self._log.append(VersionedChange(version=version, previous=previous, current=current)))

    def _remove(self, remove: Remove) -> Outcome:
        key = key_of(remove.resource)
        previous = self._objects.get(key)
        if previous is None or previous.uid != remove.uid:
            return Absent()
        del self._objects[key]
        self._fallbacks.pop(key, None)
        self.statuses.forget(key)
        change = VersionedChange(version=self._log.version + 1, previous=previous, current=None)
        return Removed(change=self._log.append(change))


class MemoryStatuses:
    """The in-memory twin of the statuses on disk; changes the objects of its ``MemoryMetastore`` in place."""

    def __init__(self, objects: dict[Key, HeldObject], log: WatchHistory[HeldObject]) -> None:
        self._objects, self._log = objects, log
        self._kept: dict[Key, EdgeReportedStatus] = {}
        self._sequence = 0
        self._listeners: list[Callable[[StatusSummary], None]] = []
        self.known = KnownStatusRules()

    def taken_over(self, before: MemoryStatuses) -> None:
        """Take over the statuses, as after a restart."""
        self._kept, self._sequence, self.known = dict(before._kept), before._sequence, before.known

    def listen(self, listener: Callable[[StatusSummary], None]) -> None:
        self._listeners.append(listener)

    async def replace_rules(self, content: bytes, digest: str) -> None:
        self.known = status_store.read(content, digest)

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
        """Forget the status of an object that was removed."""
        self._kept.pop(key, None)
