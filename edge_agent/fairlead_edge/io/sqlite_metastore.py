"""The objects a node holds, in SQLite: ``Metastore`` over the group-commit writer.

    objects    one row per (group, plural, namespace, name): identity, versions, canonical JSON
    fallbacks  the same, of objects whose version in ``objects`` cannot be used
    kinds      every kind ever held, for discovery
    facts      node, highest fence obeyed, store version, last contact with the hub

Each write is judged in the transaction that makes it (``metastore.verify``, then against the row held), and
is its own job, so that one refused object does not undo its neighbours while all share one flush.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import apsw

from fairlead_edge import metastore
from fairlead_edge.changelog import Change, ChangeLog
from fairlead_edge.errors import StoreFull
from fairlead_edge.io.writer import Writer
from fairlead_edge.kinds import Kind
from fairlead_edge.metastore import Absent, Held, Kept, Outcome, Put, Refused, Remove, Removed, Stored, Summary
from fairlead_wire import digest, message
from fairlead_wire.errors import LocalError, Permanent, Temporary
from fairlead_wire.resource import Resource

FILE_NAME: Final = "objects.db"
SCHEMA: Final = 1
PAGE_BYTES: Final = 4096
PAGES_MIN: Final = 32
"""An empty schema needs this much room, whatever limit was asked for."""

_ROW: Final = """(
  api_group TEXT NOT NULL, plural TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  version TEXT NOT NULL, uid TEXT NOT NULL, digest TEXT NOT NULL, resource_version TEXT NOT NULL,
  local_version INTEGER NOT NULL, stored_at REAL NOT NULL, content BLOB NOT NULL
)"""
_TABLES: Final = f"""
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS kinds (
  api_group TEXT, version TEXT, plural TEXT, kind TEXT NOT NULL, namespaced INTEGER NOT NULL,
  PRIMARY KEY (api_group, version, plural)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS objects {_ROW};
CREATE TABLE IF NOT EXISTS fallbacks {_ROW};
CREATE UNIQUE INDEX IF NOT EXISTS objects_key ON objects (api_group, plural, namespace, name);
CREATE INDEX IF NOT EXISTS objects_entries ON objects (uid, digest);
"""
_COLUMNS: Final = (
    "api_group, plural, namespace, name, version, uid, digest, resource_version, local_version, stored_at, content"
)
_SELECT: Final = f"SELECT {_COLUMNS} FROM objects WHERE api_group = ? AND plural = ?"
_FALLBACKS: Final = f"SELECT {_COLUMNS} FROM fallbacks WHERE api_group = ? AND plural = ? ORDER BY namespace, name"
_ONE: Final = f"{_SELECT} AND namespace = ? AND name = ?"
_BY_KEY: Final = "WHERE api_group = ? AND plural = ? AND namespace = ? AND name = ?"


class SqliteMetastore:
    """Objects of one node in ``folder``/objects.db, at most about ``bytes_max`` bytes of it.

    Raises ``StoreUnusable`` when the file cannot be opened, is damaged, is from a newer version, or belongs to
    another node.  ``wall_milliseconds`` is the time of opening.  ``usable`` says of which versions a fallback is
    kept; it is asked on the writer's thread.  Errors of the disk while running come out of every call as
    ``io.writer.StoreFailed``: the program must end then.
    """

    def __init__(
        self,
        folder: Path,
        *,
        node: str,
        bytes_max: int,
        wall_milliseconds: int,
        usable: metastore.Usable = metastore.anything,
    ) -> None:
        self._path = folder / FILE_NAME
        self._usable = usable
        self._bytes_max = bytes_max
        opened: list[int] = []

        def setup(connection: apsw.Connection) -> None:
            opened.append(_prepare(connection, node, bytes_max, wall_milliseconds))

        try:
            self.writer = Writer(self._path, setup=setup)
        except apsw.Error as error:
            raise metastore.StoreUnusable(f"{self._path}: cannot be opened: {error}") from error
        except metastore.StoreUnusable as error:
            raise metastore.StoreUnusable(f"{self._path}: {error}") from None
        self._log: ChangeLog[Held] = ChangeLog(opened[0])

    @property
    def log(self) -> ChangeLog[Held]:
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
        outcomes = await asyncio.gather(*(self._write(write, now) for write in writes))
        for outcome in outcomes:
            if isinstance(outcome, Stored | Removed):
                self._log.append(outcome.change)
        return outcomes

    async def _write(self, write: Put | Remove, now: float) -> Outcome:
        try:
            if isinstance(write, Put):
                return await self.writer.submit(lambda connection: _put(connection, write, now, self._usable))
            return await self.writer.submit(lambda connection: _remove(connection, write))
        except Permanent as error:
            return metastore.refused(error)
        except StoreFull:
            return metastore.store_full(self._bytes_max)
        except Temporary as error:
            seconds = error.retry_after_seconds
            return Refused(code="store_busy", reason=str(error), permanent=False, retry_after_seconds=seconds)

    async def obey(self, fence: int) -> None:
        def job(connection: apsw.Connection) -> None:
            known = int(_fact(connection, "fence") or 0)
            if fence < known:
                raise LocalError(f"fence {fence} is below {known}, which was obeyed before")
            if fence > known:
                _remember(connection, "fence", fence)

        await self.writer.submit(job)

    async def fence(self) -> int:
        return int(await self.writer.read(lambda connection: _fact(connection, "fence")) or 0)

    async def summary(self, bits: int | None = None) -> Summary:
        # Rows become sums on the reader's thread, so that the loop goes on serving while a large store is summed.
        return await self.writer.read(
            lambda connection: metastore.summarise(_rows(connection, "SELECT uid, digest FROM objects"), bits)
        )

    async def entries(self, bits: int, buckets: frozenset[int]) -> list[message.Entry]:
        return await self.writer.read(lambda connection: _entries(connection, bits, buckets))

    async def get(self, group: str, plural: str, namespace: str, name: str) -> Held | None:
        rows = await self._read_rows(_ONE, (group, plural, namespace, name))
        return _held(rows[0]) if rows else None

    async def select(self, group: str, plural: str, namespace: str | None = None) -> tuple[list[Held], int]:
        where, bound = (" AND namespace = ?", (namespace,)) if namespace is not None else ("", ())

        def query(connection: apsw.Connection) -> tuple[list[Held], int]:
            statement = f"{_SELECT}{where} ORDER BY namespace, name"
            held = [_held(row) for row in connection.execute(statement, (group, plural, *bound))]
            return held, int(_fact(connection, "version"))

        held, version = await self.writer.read(query)
        await self._logged(version)
        return held, version

    async def _logged(self, version: int) -> None:
        """A read may see a commit a moment before the log does; a version given out must be one to watch from."""
        if self._log.version >= version:
            return
        reached = asyncio.get_running_loop().create_future()

        def look(change: Change[Held]) -> None:
            if change.version >= version and not reached.done():
                reached.set_result(None)

        forget = self._log.listen(look)
        try:
            await reached
        finally:
            forget()

    async def fallbacks(self, group: str, plural: str) -> list[Held]:
        return [_held(row) for row in await self._read_rows(_FALLBACKS, (group, plural))]

    async def kinds(self) -> list[Kind]:
        rows = await self._read_rows("SELECT api_group, version, plural, kind, namespaced FROM kinds", ())
        return sorted(
            Kind(group=group, version=version, plural=plural, kind=kind, namespaced=bool(namespaced))
            for group, version, plural, kind, namespaced in rows
        )

    async def touch(self, contact_at: float) -> None:
        await self.writer.submit(lambda connection: _remember(connection, "contact_at", contact_at))

    async def contact_at(self) -> float | None:
        value = await self.writer.read(lambda connection: _fact(connection, "contact_at"))
        return None if value is None else float(value)

    async def _read_rows(self, statement: str, bound: tuple[Any, ...]) -> list[Any]:
        return await self.writer.read(lambda connection: _rows(connection, statement, bound))


def _prepare(connection: apsw.Connection, node: str, bytes_max: int, wall_milliseconds: int) -> int:
    """Schema, owner and limit; returns the store's version at this opening."""
    found = connection.pragma("user_version")
    if found > SCHEMA:
        raise metastore.StoreUnusable(
            f"has schema {found}, this program knows up to {SCHEMA}: run the newer version, or remove the file "
            "(the hub sends everything again)"
        )
    connection.execute(_TABLES)
    connection.pragma("user_version", SCHEMA)
    owner = _fact(connection, "node")
    if owner not in (None, node):
        raise metastore.StoreUnusable(
            f"holds the objects of node {owner!r}, not {node!r}: use another data_dir, or remove this one"
        )
    if owner is None:
        _remember(connection, "node", node)
    version = metastore.opening_version(int(_fact(connection, "version") or 0), wall_milliseconds)
    _remember(connection, "version", version)
    connection.pragma("max_page_count", max(PAGES_MIN, bytes_max // PAGE_BYTES))
    return version


def _put(connection: apsw.Connection, put: Put, now: float, usable: metastore.Usable) -> Outcome:
    kind = metastore.verify(put)
    key = metastore.key_of(put.resource)
    row = connection.execute(_ONE, key).fetchone()
    previous = _held(row) if row else None
    if previous is not None and metastore.same_content(previous, put):
        if previous.resource_version != put.resource_version:
            connection.execute(f"UPDATE objects SET resource_version = ? {_BY_KEY}", (put.resource_version, *key))
        return Kept()
    version = _next_version(connection)
    current = metastore.hold(put, local_version=version, now=now)
    values = (put.resource.version, put.uid, put.digest, put.resource_version, version, now, put.content)
    if previous is None:
        connection.execute(f"INSERT INTO objects ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?)", (*key, *values))
    else:
        _fall_back(connection, key, metastore.fallback(previous, put, usable))
        connection.execute(
            "UPDATE objects SET version = ?, uid = ?, digest = ?, resource_version = ?, local_version = ?, "
            f"stored_at = ?, content = ? {_BY_KEY}",
            (*values, *key),
        )
    connection.execute(
        "INSERT OR IGNORE INTO kinds VALUES (?,?,?,?,?)",
        (kind.group, kind.version, kind.plural, kind.kind, kind.namespaced),
    )
    return Stored(change=Change(version=version, previous=previous, current=current))


def _remove(connection: apsw.Connection, remove: Remove) -> Outcome:
    key = metastore.key_of(remove.resource)
    row = connection.execute(_ONE, key).fetchone()
    if row is None or (previous := _held(row)).uid != remove.uid:
        return Absent()
    version = _next_version(connection)
    connection.execute(f"DELETE FROM objects {_BY_KEY}", key)
    _fall_back(connection, key, "drop")
    return Removed(change=Change(version=version, previous=previous, current=None))


def _fall_back(connection: apsw.Connection, key: tuple[str, str, str, str], what: str) -> None:
    """Called while the object is still there as it was."""
    if what == "keep":
        return
    connection.execute(f"DELETE FROM fallbacks {_BY_KEY}", key)
    if what == "take":
        connection.execute(f"INSERT INTO fallbacks SELECT {_COLUMNS} FROM objects {_BY_KEY}", key)


def _next_version(connection: apsw.Connection) -> int:
    [(version,)] = _rows(connection, "UPDATE facts SET value = value + 1 WHERE name = 'version' RETURNING value")
    return int(version)


def _entries(connection: apsw.Connection, bits: int, buckets: frozenset[int]) -> list[message.Entry]:
    pairs = connection.execute("SELECT rowid, uid FROM objects")
    wanted = [rowid for rowid, uid in pairs if digest.bucket_of(uid, bits) in buckets]
    one = "SELECT api_group, version, plural, namespace, name, uid, digest, resource_version FROM objects WHERE rowid=?"
    found = []
    for rowid in wanted:
        [(group, version, plural, namespace, name, uid, content_digest, cluster)] = _rows(connection, one, (rowid,))
        at = Resource(group=group, version=version, plural=plural, namespace=namespace, name=name)
        found.append(message.Entry(at.path, uid, content_digest, cluster))
    return sorted(found, key=lambda entry: entry.resource)


def _held(row: Any) -> Held:
    group, plural, namespace, name, version, uid, content_digest, cluster, local, stored_at, content = row
    return Held(
        resource=Resource(group=group, version=version, plural=plural, namespace=namespace, name=name),
        uid=uid,
        digest=content_digest,
        resource_version=cluster,
        content=content,
        local_version=local,
        stored_at=stored_at,
    )


def _fact(connection: apsw.Connection, name: str) -> Any:
    row = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return row[0] if row else None


def _remember(connection: apsw.Connection, name: str, value: Any) -> None:
    upsert = "INSERT INTO facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    connection.execute(upsert, (name, value))


def _rows(connection: apsw.Connection, statement: str, bound: Sequence[Any] = ()) -> list[Any]:
    return connection.execute(statement, bound).fetchall()
