"""The objects a node holds, in SQLite (``schema``): ``Metastore`` over the group-commit writer.

Each write is its own job (``objects_table``), so that one refused object does not undo its neighbours while all share
one flush.

Nothing is served that the disk changed: each row has a checksum, verified when it is read, at the opening, and in
scrubs.  A damaged one is taken out, and listeners are called (``on_damage``), so that the hub sends it again.

A file whose structure is damaged is salvaged when it is opened: what can be read is kept, and the hub sends the rest
again.  Nothing is lost that the cluster does not have: the next session opens with what is held now.
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
from fairlead_edge.io.sqlite.writer import Writer
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
"""How often to check everything that is held."""

_log = logs.get("edge.metastore")


class SqliteMetastore:
    """Objects of one node in ``folder``/objects.db, at most about ``bytes_max`` bytes of it.

    Raises ``StoreUnusable`` when the file cannot be opened, is damaged, is from a newer version, or belongs to
    another node.  ``wall_milliseconds`` is the time of opening.  ``usable`` says of which versions a fallback is
    kept; it is asked on the writer's thread.  Errors of the disk while running come out of every call as
    ``StoreFailed``: the program must end then.
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
            if not self.lacking:  # else one that is damaged comes again, and its status with it
                statuses_table.forget_orphans(connection)
            rules.append(sqlite_statuses.rules_on_disk(connection))

        self.salvaged = ""
        """Why the file was salvaged at this opening; "" when it was sound."""
        self.lacking = False
        """Something the disk damaged was taken out, and may be missing still; kept over restarts until ``is_whole``."""
        self.damaged = 0
        """Objects the disk was found to have changed, since the opening."""
        self._listeners: list[Callable[[int], None]] = []
        try:
            if problem := find_damage(self.path, access):
                _log.error("store_damaged", path=str(self.path), reason=problem)
                kept = salvage_objects(self.path, access)
                remedy = f"look at the disk's health; {FILE_NAME}.damaged may be removed; the hub sends what is missing"
                _log.warning("store_salvaged", path=str(self.path), held=kept, remedy=remedy)
                self.salvaged = problem
            self.writer = Writer(self.path, setup=setup, audit=audit, access=access)
        except (apsw.Error, OSError) as error:
            raise StoreUnusable(f"{self.path}: cannot be opened: {error}") from error
        except StoreUnusable as error:
            raise StoreUnusable(f"{self.path}: {error}") from None
        self._log: WatchHistory[HeldObject] = WatchHistory(opened[0].version)
        self._in_order = asyncio.Lock()
        """Keeps changes in the order of their versions, wherever they come from."""
        self.statuses = sqlite_statuses.SqliteStatuses(self.writer, self._log, rules[-1], self._in_order)
        """The statuses that programs here reported."""
        if opened[0].dropped:
            self._note_damage(opened[0].dropped)

    def on_damage(self, listener: Callable[[int], None]) -> None:
        """Call ``listener`` with their number when objects were taken out because the disk changed them."""
        self._listeners.append(listener)

    def _note_damage(self, objects: int) -> None:
        self.damaged += objects
        _log.error("objects_damaged", objects=objects, remedy="the hub sends them again; look at the disk's health")

    async def _set_aside(self, numbers: Sequence[int]) -> None:
        """Remove damaged rows; watching clients list again, for nothing shows what the rows were."""
        with contextlib.suppress(Temporary):  # a full disk: they are not served, and taken out later
            dropped, version = await self.writer.submit(partial(objects_table.set_aside, numbers=numbers))
            if dropped:
                self.lacking = True
                self._log.lose(version)
                self._note_damage(dropped)
                for listener in self._listeners:
                    listener(dropped)

    async def is_whole(self) -> None:
        """The hub has compared what is held and sent what was missing."""
        await self.writer.submit(lambda connection: remember(connection, "lacking", 0))
        self.lacking = False

    async def forget_cluster(self, group: str, plural: str) -> None:
        """Forget what belongs to the old cluster, for the node moves to another: fence and objects of this type."""
        forget = partial(objects_table.forget_cluster, group=group, plural=plural)
        self._log.lose(await self.writer.submit(forget))
        self.statuses.known = KnownStatusRules()
        self.lacking = False

    async def scrub(self) -> None:
        """Verify everything held, in small steps."""
        after: int | None = 0
        while after is not None:
            look = partial(schema.damaged, table="objects", after=after, limit=SCRUB_ROWS)
            after, found = await self.writer.read(look)
            if found:
                await self._set_aside(found)
            await asyncio.sleep(0)

    async def keep_sound(self) -> None:
        """Run for as long as the store is open."""
        while True:
            await asyncio.sleep(SCRUB_SECONDS)
            await self.scrub()

    @property
    def log(self) -> WatchHistory[HeldObject]:
        return self._log

    @property
    def failure(self) -> Exception | None:
        """Why the disk cannot be trusted any more; None while all is well."""
        return self.writer.failure

    @property
    def commits(self) -> int:
        """Transactions committed since the opening."""
        return self.writer.commits

    async def close(self) -> None:
        """Commit what was handed over, then close the file."""
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
                raise LocalError(f"fence {fence} is below {known}, which was obeyed before")
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
        # Rows become sums on the reader's thread, so that the loop goes on serving while a large store is summed.
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
        """The objects that are as they were stored; damaged rows are removed."""
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
            if self.damaged == before:  # no room to note it: they are left out all the same
                break
        await self._logged(chunk.version)
        return chunk

    async def count(
        self, group: str, version: str, plural: str, namespace: str | None = None, *, after: tuple[str, str] = FIRST
    ) -> int:
        [(found,)] = await self._read_rows(sql.COUNT_OF_TYPE, (group, plural, *after, version, namespace))
        return int(found)

    async def _logged(self, version: int) -> None:
        """A read may see a commit a moment before the log does; a version given out must be one to watch from."""
        if self._log.version >= version:
            return
        reached = asyncio.Event()
        forget = self._log.listen(lambda change: reached.set())
        try:
            while self._log.version < version:
                reached.clear()
                with contextlib.suppress(TimeoutError):  # what was lost (``WatchHistory.lose``) is no change
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
    """What is wrong with the structure of the file at ``path``; "" when nothing is, or there is none."""
    return salvage.problem(path, partial(_look, path), model=schema.model, access=access) or ""


def _look(path: Path, connection: apsw.Connection) -> str:
    if not rows(connection, sqlite.ANYTHING):
        return ""
    [(found,)] = rows(connection, sqlite.USER_VERSION)
    return salvage.version_problem(path, found, schema.VERSION) or audit(connection)


def audit(connection: apsw.Connection) -> str:
    """For ``sqlite.writer``, which asks when a statement failed."""
    [(found,)] = rows(connection, sqlite.INTEGRITY_CHECK)
    if found != "ok":
        return str(found)
    [(version,)] = rows(connection, sqlite.USER_VERSION)
    model = schema.model(version if version == schema.VERSION else 0)
    return salvage.lacks(connection, model) if model is not None else ""


def salvage_objects(path: Path, access: FileAccess = PLAIN) -> int:
    """Returns how many objects are held on.  Raises ``StoreUnusable`` when there is no room for the new file."""
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
