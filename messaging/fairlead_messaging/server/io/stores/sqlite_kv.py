"""SQLite behind the ordered key-value port: nothing but the standard library.

One table without rowids keyed by bytes; write-ahead log with ``synchronous=FULL``, so a commit is on disk
when it returns.  One connection writes and one answers single gets; each snapshot holds a read transaction on
a connection of its own, taken from a small pool.  No reader ever waits for a write.

Pages that were freed are used again, and beyond a share of the file they go back to the system, a piece at a time.
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
"""To which the write-ahead log is cut when it is begun anew."""
RECLAIM_PIECE_PAGES = 256
"""Pages given back in one go, during which writes wait: a mebibyte."""
RECLAIM_PAGES_MAX = 65_536
"""Pages given back in one pass: 256 MiB."""
RECLAIM_PAUSE_SECONDS = 0.005
FREE_PAGES_KEPT = 1024
"""Free pages that stay in any case; so does a quarter of those in use."""

INCREMENTAL = 2
FILE_NAME = "messaging.sqlite"

_log = logs.get("messaging.sqlite")


class SqliteKV(OneWriter):
    """One database file in one directory.  Without ``create`` it must be there."""

    def __init__(self, directory: Path, *, create: bool = True) -> None:
        if create:
            directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / FILE_NAME
        if not create and not self._path.exists():
            raise StorageError(f"sqlite open: {self._path} is gone")
        self._lock = threading.Lock()
        """Of the writer's connection."""
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
            # The modes of the file are the writer's: a reader that set them would wait for a running write.
            connection.execute("PRAGMA query_only=ON")
            return connection
        connection.execute(f"PRAGMA auto_vacuum={INCREMENTAL}")  # heeded by an empty file alone
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
        """SQLite uses freed pages again by itself; the log is folded into the file."""
        with self._lock, storage_errors("sqlite compact", sqlite3.Error):
            self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def reclaim(self) -> None:
        """Freed pages beyond a quarter of those in use go back to the system; a write waits for one piece at most."""
        for _ in range(RECLAIM_PAGES_MAX // RECLAIM_PIECE_PAGES):
            with self._lock, storage_errors("sqlite reclaim", sqlite3.Error):
                if self._closed:
                    return
                free = self._number("freelist_count")
                kept = max(FREE_PAGES_KEPT, (self._number("page_count") - free) // 4)
                if free <= kept:
                    break
                # A script, because this statement has a step a page and no rows: ``execute`` would take the first step.
                self._writer.executescript(f"PRAGMA incremental_vacuum({min(RECLAIM_PIECE_PAGES, free - kept)})")
            time.sleep(RECLAIM_PAUSE_SECONDS)  # the lock is not fair, and a write may be waiting
        else:
            _log.info("store_shrinks", file=str(self._path), pages=RECLAIM_PAGES_MAX)
        with self._lock, storage_errors("sqlite reclaim", sqlite3.Error):
            if not self._closed:
                self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def halt(self) -> None:
        """Nothing runs in the background here."""

    def close(self) -> None:
        with self._lock, self._pool_lock, self._get_lock:
            self._closed = True
            for connection in (*self._idle, self._getter, self._writer):
                connection.close()
            self._idle.clear()


class SqliteSnapshot(SnapshotBase):
    """A read transaction; closing it gives the connection back."""

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
