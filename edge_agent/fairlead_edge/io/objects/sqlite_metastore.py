"""The objects of a node in SQLite (``schema``): ``Metastore`` over the group-commit writer.

Each write is a job of its own (``objects_table``), so that one refused object does not undo the others while all share
one flush.

Damaged rows are never served: each row has a checksum, which is verified on every read, at the opening, and by scrubs.
A damaged row is removed, and listeners are called (``on_damage``), so that the hub sends the object again.

A file whose structure is damaged is salvaged when it is opened: readable rows are kept, and the hub sends the rest
again.  Nothing is lost, because the cluster has all objects and the next session begins with what is stored now.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import apsw

from fairlead_edge.errors import StoreFull, StoreUnusable
from fairlead_edge.io.file_access import PLAIN, FileAccess
from fairlead_edge.io.objects import objects_table, schema, sqlite_statuses, statuses_table
from fairlead_edge.io.objects import schema as sql
from fairlead_edge.io.objects.schema import fact, held, remember
from fairlead_edge.io.sqlite import salvage
from fairlead_edge.io.sqlite import statements as sqlite
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.io.sqlite.writer import SqliteWriter
from fairlead_edge.link_state import StaleHub
from fairlead_edge.objects import metastore
from fairlead_edge.objects.kinds import Kind
from fairlead_edge.objects.metastore import (
    FIRST,
    HeldObject,
    ObjectChunk,
    Outcome,
    Put,
    Remove,
    Removed,
    Stored,
    StoreSummary,
    WriteRefused,
)
from fairlead_edge.objects.statuses import status_store
from fairlead_edge.objects.statuses.reported import EdgeReportedStatus
from fairlead_edge.objects.statuses.status_store import KnownStatusRules
from fairlead_edge.objects.watch_history import WatchHistory
from fairlead_wire import message
from fairlead_wire.errors import LocalError, Permanent, Temporary
from fairlead_wire.io import logs

FILE_NAME: Final = "objects.db"
LOGGED_SECONDS: Final = 0.1
SCRUB_ROWS: Final = 256
SCRUB_SECONDS: Final = 6 * 3600.0
"""How often to verify all rows."""

_log = logs.get("edge.metastore")


class SqliteMetastore:
    """The objects of one node, in ``folder``/objects.db, which takes about ``bytes_max`` bytes at most.

    Raises ``StoreUnusable`` if the file cannot be opened, is from another version, or belongs to another node.
    ``wall_milliseconds`` is the current time.  ``usable`` tells which versions are usable, so that a fallback is kept
    of the others; it is called on the writer's thread.  After an error of the disk, every call raises ``StoreFailed``,
    and the program must exit.
    """

    def __init__(
        self,
        folder: Path,
        *,
        node: str,
        bytes_max: int,
        wall_milliseconds: int,
        usable: metastore.Usable = metastore.anything,
        access: FileAccess = PLAIN,
    ) -> None:
        self.path = folder / FILE_NAME
        self._usable = usable
        self._bytes_max = bytes_max
        opened: list[objects_table.OpenedObjects] = []
        rules: list[KnownStatusRules] = []

        def setup(connection: apsw.Connection) -> None:
            opened.append(objects_table.prepare(connection, node, bytes_max, wall_milliseconds))
            if self.salvaged or opened[-1].dropped:
                remember(connection, "lacking", 1)
            self.lacking = bool(fact(connection, "lacking"))
            if not self.lacking:  # otherwise a missing object will be sent again, and then has its status
                statuses_table.forget_orphans(connection)
            rules.append(sqlite_statuses.rules_on_disk(connection))

        self.salvaged = ""
        """Why the file was salvaged at this opening; "" if it was sound."""
        self.lacking = False
        """Damaged objects were removed and may still be missing; survives restarts, until ``is_whole``."""
        self.damaged = 0
        """Damaged objects found since the opening."""
        self._listeners: list[Callable[[int], None]] = []
        try:
            if problem := find_damage(self.path, access):
                _log.error("store_damaged", path=str(self.path), reason=problem)
                kept = salvage_objects(self.path, access)
                remedy = f"check the disk; {FILE_NAME}.damaged may be removed; the hub will send what is missing"
                _log.warning("store_salvaged", path=str(self.path), held=kept, remedy=remedy)
                self.salvaged = problem
            self.writer = SqliteWriter(self.path, setup=setup, audit=audit, access=access)
        except (apsw.Error, OSError) as error:
            raise StoreUnusable(f"{self.path}: cannot be opened: {error}") from error
        except StoreUnusable as error:
            raise StoreUnusable(f"{self.path}: {error}") from None
        self._log: WatchHistory[HeldObject] = WatchHistory(opened[0].version)
        self._in_order = asyncio.Lock()
        """Keeps the log's changes in the order of their versions."""
        self.statuses = sqlite_statuses.SqliteStatuses(self.writer, self._log, rules[-1], self._in_order)
        """The statuses that programs on this node reported."""
        if opened[0].dropped:
            self._note_damage(opened[0].dropped)

    def on_damage(self, listener: Callable[[int], None]) -> None:
        """Call ``listener`` with the number of objects whenever damaged ones were removed."""
        self._listeners.append(listener)

    def _note_damage(self, objects: int) -> None:
        self.damaged += objects
        _log.error("objects_damaged", objects=objects, remedy="the hub will send them again; check the disk")

    async def _set_aside(self, numbers: Sequence[int]) -> None:
        """Remove damaged rows; watches must list again, because it is unknown which objects were lost."""
        with contextlib.suppress(Temporary):  # on a full disk they are removed later; they are not served anyway
            dropped, version = await self.writer.submit(partial(objects_table.set_aside, numbers=numbers))
            if dropped:
                self.lacking = True
                self._log.lose(version)
                self._note_damage(dropped)
                for listener in self._listeners:
                    listener(dropped)

    async def is_whole(self) -> None:
        """Record that the hub has compared the store and sent everything that was missing."""
        await self.writer.submit(lambda connection: remember(connection, "lacking", 0))
        self.lacking = False

    async def forget_cluster(self, group: str, plural: str) -> None:
        """Forget the fence and the objects of this type, because the node has moved to another cluster."""
        forget = partial(objects_table.forget_cluster, group=group, plural=plural)
        self._log.lose(await self.writer.submit(forget))
        self.statuses.known = KnownStatusRules()
        self.lacking = False

    async def scrub(self) -> None:
        """Verify all rows, in small steps."""
        after: int | None = 0
        while after is not None:
            verify = partial(schema.damaged, table="objects", after=after, limit=SCRUB_ROWS)
            after, found = await self.writer.read(verify)
            if found:
                await self._set_aside(found)
            await asyncio.sleep(0)

    async def keep_sound(self) -> None:
        """Scrub regularly; runs until cancelled."""
        while True:
            await asyncio.sleep(SCRUB_SECONDS)
            await self.scrub()

    @property
    def log(self) -> WatchHistory[HeldObject]:
        return self._log

    @property
    def failure(self) -> Exception | None:
        """Why the disk cannot be trusted any more; None while it works."""
        return self.writer.failure

    @property
    def commits(self) -> int:
        """Transactions committed since the opening."""
        return self.writer.commits

    async def close(self) -> None:
        """Commit pending writes, then close the file."""
        await self.writer.close()

    async def apply(self, writes: Sequence[Put | Remove], now: float) -> list[Outcome]:
        async with self._in_order:
            outcomes = await asyncio.gather(*(self._write(write, now) for write in writes))
            for outcome in outcomes:
                if isinstance(outcome, Stored | Removed):
                    self._log.append(outcome.change)
        return outcomes

    async def _write(self, write: Put | Remove, now: float) -> Outcome:
        try:
            if isinstance(write, Put):
                return await self.writer.submit(
                    lambda connection: objects_table.put(connection, write, now, self._usable)
                )
            return await self.writer.submit(lambda connection: objects_table.remove(connection, write))
        except Permanent as error:
            return metastore.refused(error)
        except StoreFull:
            return metastore.store_full(self._bytes_max)
        except Temporary as error:
            seconds = error.retry_after_seconds
            return WriteRefused(code="store_busy", reason=str(error), permanent=False, retry_after_seconds=seconds)

    async def persist_fence(self, fence: int) -> None:
        def job(connection: apsw.Connection) -> None:
            known = int(fact(connection, "fence") or 0)
            if fence < known:
                raise LocalError(f"fence {fence} is lower than {known}, which was obeyed before")
            if fence > known:
                remember(connection, "fence", fence)
            objects_table.forget_stale_hub(connection)

        await self.writer.submit(job)

    async def lower_fence(self, fence: int) -> None:
        def job(connection: apsw.Connection) -> None:
            if fence < int(fact(connection, "fence") or 0):
                remember(connection, "fence", fence)
            objects_table.forget_stale_hub(connection)

        await self.writer.submit(job)

    async def stale_hub(self) -> StaleHub | None:
        return await self.writer.read(objects_table.stale_hub)

    async def persist_stale_hub(self, found: StaleHub) -> None:
        await self.writer.submit(partial(objects_table.persist_stale_hub, found=found))

    async def fence(self) -> int:
        return int(await self.writer.read(lambda connection: fact(connection, "fence")) or 0)

    async def summary(self, bits: int | None = None) -> StoreSummary:
        # Summed on the reader's thread, so that a large store does not block the event loop.
        return await self.writer.read(lambda connection: metastore.summarise(rows(connection, sql.DIGESTS), bits))

    async def entries(self, bits: int, buckets: frozenset[int]) -> list[message.HeldEntry]:
        return await self.writer.read(lambda connection: objects_table.entries(connection, bits, buckets))

    async def get(self, group: str, plural: str, namespace: str, name: str) -> HeldObject | None:
        key = group, plural, namespace, name

        def query(connection: apsw.Connection) -> tuple[list[Any], EdgeReportedStatus | None]:
            return rows(connection, sql.OBJECT, key), statuses_table.kept(connection, key)

        read, kept = await self.writer.read(query)
        found = await self._sound(read)
        return status_store.with_status(found[0], kept) if found else None

    async def _sound(self, found: Sequence[Any]) -> list[HeldObject]:
        """The objects of sound rows; damaged rows are removed."""
        read = [(row[0], held(row)) for row in found]
        if damaged := [number for number, each in read if each is None]:
            await self._set_aside(damaged)
        return [each for _, each in read if each is not None]

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
        statement = sql.OBJECTS if namespace is None else sql.OBJECTS_OF_NAMESPACE
        bound = (group, plural, *after) if namespace is None else (group, plural, *after, namespace)

        def query(connection: apsw.Connection) -> tuple[ObjectChunk, list[int]]:
            found: list[HeldObject] = []
            damaged: list[int] = []
            size, more = 0, False
            for row in connection.execute(statement, bound):
                if bytes_max is not None and size >= bytes_max:
                    more = True
                    break
                each = held(row)
                if each is None:
                    damaged.append(row[0])
                    continue
                at = each.resource
                key = at.group, at.plural, at.namespace, at.name
                found.append(status_store.with_status(each, statuses_table.kept(connection, key)))
                size += len(found[-1].content) + len(found[-1].status)
            return ObjectChunk(objects=found, version=objects_table.current_version(connection), more=more), damaged

        while True:
            chunk, damaged = await self.writer.read(query)
            if not damaged:
                break
            before = self.damaged
            await self._set_aside(damaged)
            if self.damaged == before:  # no room to remove them; they are skipped anyway
                break
        await self._logged(chunk.version)
        return chunk

    async def count(
        self, group: str, version: str, plural: str, namespace: str | None = None, *, after: tuple[str, str] = FIRST
    ) -> int:
        [(found,)] = await self._read_rows(sql.COUNT_OF_TYPE, (group, plural, *after, version, namespace))
        return int(found)

    async def _logged(self, version: int) -> None:
        """Wait until the log has reached ``version``: clients watch from it, and a read may see a commit first."""
        if self._log.version >= version:
            return
        reached = asyncio.Event()
        forget = self._log.listen(lambda change: reached.set())
        try:
            while self._log.version < version:
                reached.clear()
                with contextlib.suppress(TimeoutError):  # ``WatchHistory.lose`` does not call the listener
                    async with asyncio.timeout(LOGGED_SECONDS):
                        await reached.wait()
        finally:
            forget()

    async def fallbacks(self, group: str, plural: str) -> list[HeldObject]:
        found = [held(row) for row in await self._read_rows(sql.FALLBACKS, (group, plural))]
        return [each for each in found if each is not None]

    async def kinds(self) -> list[Kind]:
        found = await self._read_rows(sql.KINDS, ())
        return sorted(
            Kind(group=group, version=version, plural=plural, kind=kind, namespaced=bool(namespaced))
            for group, version, plural, kind, namespaced in found
        )

    async def touch(self, contact_at: float) -> None:
        await self.writer.submit(lambda connection: remember(connection, "contact_at", contact_at))

    async def contact_at(self) -> float | None:
        value = await self.writer.read(lambda connection: fact(connection, "contact_at"))
        return None if value is None else float(value)

    async def _read_rows(self, statement: str, bound: tuple[Any, ...]) -> list[Any]:
        return await self.writer.read(lambda connection: rows(connection, statement, bound))


def find_damage(path: Path, access: FileAccess = PLAIN) -> str:
    """What is wrong with the structure of the file at ``path``; "" if nothing is, or there is no file."""
    return salvage.problem(path, partial(_inspect, path), model=schema.model, access=access) or ""


def _inspect(path: Path, connection: apsw.Connection) -> str:
    if not rows(connection, sqlite.ANYTHING):
        return ""
    [(found,)] = rows(connection, sqlite.USER_VERSION)
    return salvage.version_problem(path, found, schema.VERSION) or audit(connection)


def audit(connection: apsw.Connection) -> str:
    """What is wrong with an open file; ``sqlite.writer`` asks this after a failed statement."""
    [(found,)] = rows(connection, sqlite.INTEGRITY_CHECK)
    if found != "ok":
        return str(found)
    [(version,)] = rows(connection, sqlite.USER_VERSION)
    model = schema.model(version if version == schema.VERSION else 0)
    return salvage.lacks(connection, model) if model is not None else ""


def salvage_objects(path: Path, access: FileAccess = PLAIN) -> int:
    """Salvage the file; returns how many objects were kept.  Raises ``StoreUnusable`` without room for the new file."""
    kept: list[int] = []

    def fill(source: apsw.Connection, target: apsw.Connection) -> None:
        schema.create(target)
        for table in ("facts", "kinds"):
            salvage.copy_small(source, target, table)
        for table in ("objects", "fallbacks"):
            salvage.copy(source, target, table)
        kept.append(rows(target, sql.COUNT)[0][0])

    try:
        salvage.salvage(path, fill=fill, access=access)
    except (OSError, apsw.Error) as error:
        raise StoreUnusable(f"{path}: is damaged and there is no room to salvage it: {error}") from error
    return kept[0] if kept else 0
