"""The ordered key-value port on SQLite, with nothing but the standard library.

The store is one table keyed by bytes; with a write-ahead log and ``synchronous=FULL`` a commit is on disk when it
returns.  One connection writes and one answers single gets; each snapshot has a read transaction on another connection,
from a small pool.  No reader ever waits for a write.

Freed pages are reused; beyond a share of the file they are returned to the file system, a few at a time.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.store.ordered_kv import DELETE, PUT, Batch, OneWriter, SnapshotBase, storage_errors
from fairlead_wire.io import logs

IDLE_READERS_MAX = 8
LOG_BYTES_KEPT = 16 * 1024 * 1024
"""The size to which the write-ahead log is truncated when it starts from the beginning again."""
RECLAIM_PIECE_PAGES = 256
"""Pages returned in one step, during which writes wait: 1 MiB."""
RECLAIM_PAGES_MAX = 65_536
"""Pages returned in one pass: 256 MiB."""
RECLAIM_PAUSE_SECONDS = 0.005
FREE_PAGES_KEPT = 1024
"""Free pages that are kept in any case, besides a quarter of those in use."""

INCREMENTAL = 2
FILE_NAME = "messaging.sqlite"

_log = logs.get("messaging.sqlite")


class SqliteKV(OneWriter):
    """A database file in a directory.  Without ``create`` it must exist."""

    def __init__(self, directory: Path, *, create: bool = True) -> None:
        if create:
            directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / FILE_NAME
        if not create and not self._path.exists():
            raise StorageError(f"sqlite open: {self._path} is gone")
        self._lock = threading.Lock()
        """Guards the writer's connection."""
        self._pool_lock = threading.Lock()
        self._get_lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        with storage_errors("sqlite open", sqlite3.Error):
            self._writer = self._connect(writes=True)

            self._writer.execute("CREATE TABLE IF NOT EXISTS kv (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID")
            self._getter = self._connect()

    def _connect(self, *, writes: bool = False) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA busy_timeout=5000")
        if not writes:
            # The writer sets the modes of the file: a reader that did would wait for a running write.
            connection.execute("PRAGMA query_only=ON")
            return connection
        connection.execute(f"PRAGMA auto_vacuum={INCREMENTAL}")  # has an effect only on an empty file
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA journal_size_limit={LOG_BYTES_KEPT}")
        return connection

    def _number(self, pragma: str) -> int:
        return int(self._writer.execute(f"PRAGMA {pragma}").fetchone()[0])

    def apply(self, batch: Batch) -> None:
        with self._lock, storage_errors("sqlite write", sqlite3.Error):
            writer = self._writer
            writer.execute("BEGIN IMMEDIATE")
            try:
                for kind, key, value in batch.operations:
                    if kind == PUT:
                        writer.execute("INSERT OR REPLACE INTO kv VALUES (?, ?)", (key, value))
                    elif kind == DELETE:
                        writer.execute("DELETE FROM kv WHERE k = ?", (key,))
                    else:
                        writer.execute("DELETE FROM kv WHERE k >= ? AND k < ?", (key, value))
                writer.execute("COMMIT")
            except sqlite3.Error:
                if writer.in_transaction:
                    writer.execute("ROLLBACK")
                raise

    def get(self, key: bytes) -> bytes | None:
        with self._get_lock, storage_errors("sqlite read", sqlite3.Error):
            row = self._getter.execute("SELECT v FROM kv WHERE k = ?", (key,)).fetchone()
            return row[0] if row else None

    def snapshot(self, *, sequential: bool = False) -> SqliteSnapshot:
        with storage_errors("sqlite read", sqlite3.Error):
            with self._pool_lock:
                if self._closed:
                    raise StorageError("the store is closed")
                idle = self._idle.pop() if self._idle else None
            connection = idle or self._connect()
            connection.execute("BEGIN")
            # The snapshot of a deferred transaction begins with its first read.
            connection.execute("SELECT 1 FROM kv LIMIT 1").fetchone()
            return SqliteSnapshot(self, connection)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        connection.execute("ROLLBACK")
        with self._pool_lock:
            if not self._closed and len(self._idle) < IDLE_READERS_MAX:
                self._idle.append(connection)
                return
        connection.close()

    def compact(self, low: bytes, high: bytes) -> None:
        """Move the write-ahead log into the file; SQLite reuses freed pages by itself."""
        with self._lock, storage_errors("sqlite compact", sqlite3.Error):
            self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def reclaim(self) -> None:
        """Return freed pages beyond a quarter of those in use; a write waits for one step at most."""
        for _ in range(RECLAIM_PAGES_MAX // RECLAIM_PIECE_PAGES):
            with self._lock, storage_errors("sqlite reclaim", sqlite3.Error):
                if self._closed:
                    return
                free = self._number("freelist_count")
                kept = max(FREE_PAGES_KEPT, (self._number("page_count") - free) // 4)
                if free <= kept:
                    break
                # A script, because the statement takes one step for each page, and ``execute`` makes only the first.
                self._writer.executescript(f"PRAGMA incremental_vacuum({min(RECLAIM_PIECE_PAGES, free - kept)})")
            time.sleep(RECLAIM_PAUSE_SECONDS)  # the lock is not fair, and a write may be waiting
        else:
            _log.info("store_shrinks", file=str(self._path), pages=RECLAIM_PAGES_MAX)
        with self._lock, storage_errors("sqlite reclaim", sqlite3.Error):
            if not self._closed:
                self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def halt(self) -> None:
        """Does nothing: SQLite has no background work."""

    def close(self) -> None:
        with self._lock, self._pool_lock, self._get_lock:
            self._closed = True
            for connection in (*self._idle, self._getter, self._writer):
                connection.close()
            self._idle.clear()


class SqliteSnapshot(SnapshotBase):
    """A read transaction; closing it returns its connection to the pool."""

    def __init__(self, store: SqliteKV, connection: sqlite3.Connection) -> None:
        self._store = store
        self._connection: sqlite3.Connection | None = connection

    def _source(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StorageError("the snapshot is closed")
        return self._connection

    def get(self, key: bytes) -> bytes | None:
        with storage_errors("sqlite read", sqlite3.Error):
            row = self._source().execute("SELECT v FROM kv WHERE k = ?", (key,)).fetchone()
            return row[0] if row else None

    def scan(self, low: bytes, high: bytes) -> Iterator[tuple[bytes, bytes]]:
        with storage_errors("sqlite read", sqlite3.Error):
            cursor = self._source().execute("SELECT k, v FROM kv WHERE k >= ? AND k < ? ORDER BY k", (low, high))
            try:
                yield from cursor
            finally:
                cursor.close()

    def last_below(self, low: bytes, high: bytes) -> tuple[bytes, bytes] | None:
        with storage_errors("sqlite read", sqlite3.Error):
            row: tuple[bytes, bytes] | None = (
                self._source()
                .execute("SELECT k, v FROM kv WHERE k >= ? AND k < ? ORDER BY k DESC LIMIT 1", (low, high))
                .fetchone()
            )
            return row

    def close(self) -> None:
        if self._connection is not None:
            self._store._give_back(self._connection)
            self._connection = None
