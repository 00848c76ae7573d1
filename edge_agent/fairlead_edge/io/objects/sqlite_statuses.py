"""Reported statuses on disk: ``StatusStore`` over the writer of the object store, in the same file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import apsw
import msgspec

from fairlead_edge.errors import StoreFull
from fairlead_edge.io.objects import objects_table, statuses_table
from fairlead_edge.io.objects.schema import fact, remember
from fairlead_edge.io.sqlite.writer import SqliteWriter
from fairlead_edge.objects.kinds import Kind
from fairlead_edge.objects.metastore import HeldObject
from fairlead_edge.objects.statuses import reported, status_store
from fairlead_edge.objects.statuses.patch import StatusPatch
from fairlead_edge.objects.statuses.reported import EdgeReportedStatus
from fairlead_edge.objects.statuses.status_store import Key, KnownStatusRules, Outgoing, StatusSummary
from fairlead_edge.objects.watch_history import VersionedChange, WatchHistory
from fairlead_wire.errors import Malformed
from fairlead_wire.io import logs

_log = logs.get("edge.statuses")


def rules_on_disk(connection: apsw.Connection) -> KnownStatusRules:
    """The rules received last; none if they are damaged, and then the hub sends them again."""
    content, digest = fact(connection, statuses_table.RULES), fact(connection, statuses_table.RULES_DIGEST)
    if not isinstance(content, bytes) or not isinstance(digest, str):
        return KnownStatusRules()
    try:
        return status_store.read(content, digest)
    except Malformed:
        return KnownStatusRules()


Changed = tuple[HeldObject, tuple[VersionedChange[HeldObject], StatusSummary] | None]
"""The object after the change, and the change; None if nothing changed."""


class SqliteStatuses:
    """The statuses of one store.  Changes are appended to ``log`` for watches, under the lock ``in_order``."""

    def __init__(
        self, writer: SqliteWriter, log: WatchHistory[HeldObject], known: KnownStatusRules, in_order: asyncio.Lock
    ) -> None:
        self._writer, self._log, self._in_order = writer, log, in_order
        self._listeners: list[Callable[[StatusSummary], None]] = []
        self.known = known

    def listen(self, listener: Callable[[StatusSummary], None]) -> None:
        self._listeners.append(listener)

    async def replace_rules(self, content: bytes, digest: str) -> None:
        known = status_store.read(content, digest)

        def job(connection: apsw.Connection) -> None:
            remember(connection, statuses_table.RULES, content)
            remember(connection, statuses_table.RULES_DIGEST, digest)

        await self._writer.submit(job)
        self.known = known
        _log.info("status_rules", rules=len(known.rules), allowed=sum(each.allowed for each in known.rules))

    async def patch(self, key: Key, version: str, kind: Kind, patch: StatusPatch, now: float) -> HeldObject:
        known = self.known

        def decided(connection: apsw.Connection) -> tuple[HeldObject, EdgeReportedStatus | None]:
            held = objects_table.get(connection, key)
            found = status_store.decide(
                held, statuses_table.kept(connection, key), key=key, version=version, kind=kind, patch=patch,
                known=known, sequence=statuses_table.next_sequence(connection), now=now,
            )  # fmt: skip
            if found[1] is not None:
                others, size = statuses_table.room_taken(connection, key)
                status_store.check_room(others, size + len(statuses_table.encoded(found[1])))
            return found

        def job(connection: apsw.Connection) -> Changed:
            held, after = decided(connection)
            if after is None:
                return held, None
            number = objects_table.next_version(connection)
            current = status_store.with_status(msgspec.structs.replace(held, local_version=number), after)
            statuses_table.set_version(connection, current, key)
            statuses_table.keep(connection, key, after)
            remember(connection, statuses_table.SEQUENCE, after.sequence)
            change = VersionedChange(version=number, previous=held, current=current)
            return current, (change, status_store.line(key, after))

        if patch.dry_run:
            held, after = await self._writer.read(decided)
            return held if after is None else status_store.with_status(held, after)
        return await asyncio.shield(asyncio.create_task(self._change(job)))

    async def _change(self, job: Callable[[apsw.Connection], Changed]) -> HeldObject:
        """Runs in a separate task: a client that disconnects must not keep a change on disk from watches."""
        async with self._in_order:
            try:
                current, changed = await self._writer.submit(job)
            except StoreFull as error:
                raise status_store.full(str(error)) from None
            if changed is not None:
                self._log.append(changed[0])
        if changed is not None:
            for listener in self._listeners:
                listener(changed[1])
        return current

    async def lines(self) -> list[StatusSummary]:
        return await self._writer.read(statuses_table.lines)

    async def outgoing(self, key: Key) -> Outgoing | None:
        def query(connection: apsw.Connection) -> Outgoing | None:
            held = objects_table.get(connection, key)
            return status_store.outgoing(held, statuses_table.kept(connection, key))

        return await self._writer.read(query)

    async def settle(self, key: Key, uid: str, sequence: int, *, code: str = "", reason: str = "") -> None:
        def job(connection: apsw.Connection) -> None:
            kept = statuses_table.kept(connection, key)
            if kept is not None and kept.uid == uid:
                statuses_table.keep(connection, key, reported.settled(kept, sequence, code=code, reason=reason))

        await self._writer.submit(job)
