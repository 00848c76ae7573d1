"""Reads a store that no service has open, without changing it; and restores a backup.

data_dir/lock       if a service holds it, reading is refused with the name of its process.  The reader holds a shared
                    lock, so that no service starts meanwhile; a copy without the file needs none
sqlite              opened read-only, including the index of the write-ahead log; after a clean stop there is no log,
                    and if a copy lacks only the index, file and log are copied to a temporary folder
rocksdb             opened read-only through a temporary folder of links, because the binding writes next to the files
                    that it opens; a log that is not in the tables yet is replayed in memory
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import rocksdict

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.backup import Decoder
from fairlead_messaging.server.io.stores.data_dir import LOCK_NAME, ServiceDataDir, holder_of
from fairlead_messaging.server.io.stores.rocksdb_kv import RocksKV, RocksSnapshot
from fairlead_messaging.server.io.stores.sqlite_kv import FILE_NAME, SqliteKV
from fairlead_messaging.server.log import keys
from fairlead_messaging.server.store.ordered_kv import Batch, storage_errors

ROCKSDB_FOLDER = "rocksdb"
ROCKSDICT_FILE = "rocksdict-config.json"
"""Files that the binding writes whenever it opens a store."""

Kind = Literal["rocksdb", "sqlite"]


class InUse(StorageError):
    """A service has the store open."""


class NoStore(StorageError):
    """There is no store, or more than one, so that the kind must be given."""


class SqliteRows:
    """The rows of an SQLite file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def scan(self, low: bytes, high: bytes) -> Iterator[tuple[bytes, bytes]]:
        with storage_errors("sqlite read", sqlite3.Error):
            yield from self._connection.execute("SELECT k, v FROM kv WHERE k >= ? AND k < ? ORDER BY k", (low, high))


def kind_of(data_dir: Path) -> Kind:
    """The kind of the store in a directory.  Raises: NoStore."""
    kinds: list[Kind] = []
    if (data_dir / ROCKSDB_FOLDER / "CURRENT").exists():
        kinds.append("rocksdb")
    if (data_dir / FILE_NAME).exists():
        kinds.append("sqlite")
    if len(kinds) == 1:
        return kinds[0]
    if kinds:
        raise NoStore(f"{data_dir} holds a rocksdb and a sqlite store; say --store rocksdb or --store sqlite")
    raise NoStore(f"{data_dir} holds no store: neither {ROCKSDB_FOLDER}/CURRENT nor {FILE_NAME}")


@contextlib.contextmanager
def opened(data_dir: Path, kind: Kind | None = None) -> Iterator[SqliteRows | RocksSnapshot]:
    """The rows of the store in ``data_dir``.  Raises: InUse, NoStore; StorageError if it cannot be opened."""
    with _locked(data_dir), contextlib.ExitStack() as stack:
        found = kind or kind_of(data_dir)
        home = data_dir / (ROCKSDB_FOLDER if found == "rocksdb" else FILE_NAME)
        if not home.exists():
            raise NoStore(f"{data_dir} holds no {found} store: there is no {home.name}")
        if found == "rocksdb":
            yield stack.enter_context(_rocksdb(home))
        else:
            yield stack.enter_context(_sqlite(home))


@contextlib.contextmanager
def _locked(data_dir: Path) -> Iterator[None]:
    try:
        file = os.open(data_dir / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        if not data_dir.is_dir():
            raise NoStore(f"{data_dir} is not a directory") from None
        yield
        return
    except OSError as error:
        raise StorageError(f"{data_dir / LOCK_NAME}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            raise InUse(
                f"{data_dir} is in use by {holder_of(file)}; stop that service, or use a copy of the "
                "folder made while it was stopped, or a snapshot of its volume"
            ) from None
        yield
    finally:
        os.close(file)


@contextlib.contextmanager
def _sqlite(file: Path) -> Iterator[SqliteRows]:
    log, index = (file.with_name(file.name + end) for end in ("-wal", "-shm"))
    with contextlib.ExitStack() as stack:
        if not log.exists() or not log.stat().st_size:
            how = "mode=ro&immutable=1"
        elif index.exists():
            how = "mode=ro&readonly_shm=1"
        else:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-dump-")))
            for each in (file, log):
                shutil.copyfile(each, scratch / each.name)
            file, how = scratch / file.name, "mode=ro"
        try:
            connection = sqlite3.connect(f"file:{quote(str(file.absolute()))}?{how}", uri=True)
            stack.callback(connection.close)
            connection.execute("SELECT k FROM kv LIMIT 1").fetchone()
        except sqlite3.Error as error:
            raise StorageError(f"sqlite open {file}: {error}") from error
        yield SqliteRows(connection)


@contextlib.contextmanager
def _rocksdb(folder: Path) -> Iterator[RocksSnapshot]:
    with tempfile.TemporaryDirectory(prefix="fairlead-dump-") as name:
        view = Path(name)
        for each in folder.iterdir():
            if each.name == ROCKSDICT_FILE:
                shutil.copyfile(each, view / each.name)
            else:
                (view / each.name).symlink_to(each.absolute())
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(False)
        try:
            database = rocksdict.Rdict(str(view), options, access_type=rocksdict.AccessType.read_only())
        except Exception as error:
            raise StorageError(f"rocksdb open {folder}: {str(error).replace(str(view), str(folder))}") from error
        snapshot = RocksSnapshot(database.iter())
        try:
            yield snapshot
        finally:
            snapshot.close()
            database.close()


# --- Restoring a backup into an empty folder.
#     data_dir/lock ─→ data_dir/restoring/…  rows, flushed ─→ the end frame is checked ─→ renamed into place
# A process that is killed before the rename leaves only ``restoring``, which services ignore and the next attempt
# removes.

RESTORING = "restoring"
SQLITE_LOG = f"{FILE_NAME}-wal"


class NotEmpty(StorageError):
    """There is a store already, and a backup never replaces one."""


def restore(
    backup: Decoder, data_dir: Path, kind: Kind, now: str, *, new_id: bool, wrote: Callable[[int], None]
) -> int:
    """Restore all of ``backup`` and return the number of rows; ``wrote`` is called with the number in each block.

    ``new_id``: the service will give itself a new id when it starts, so that readers take it for another service.
    Raises: NotEmpty; StorageError if the directory is in use or cannot be written; BadBackup. Then there is no store.
    """
    folder = ServiceDataDir(data_dir, now)
    try:
        for name in (ROCKSDB_FOLDER, FILE_NAME, SQLITE_LOG):
            # SQLite would read a leftover log of another file into the new one.
            if os.path.lexists(data_dir / name):
                raise NotEmpty(f"{data_dir} holds a store already ({name}); name a folder without one, or move it away")
        scratch = data_dir / RESTORING
        try:
            shutil.rmtree(scratch, ignore_errors=True)
            name, written = _filled(backup, scratch, kind, new_id, wrote)
            os.rename(scratch / name, data_dir / name)
            scratch.rmdir()
            _flush(data_dir)
        except BaseException as error:
            shutil.rmtree(scratch, ignore_errors=True)
            if isinstance(error, OSError):
                raise StorageError(f"{data_dir}: {error.strerror or error}") from error
            raise
    finally:
        folder.close()
    return written


def _filled(backup: Decoder, scratch: Path, kind: Kind, new_id: bool, wrote: Callable[[int], None]) -> tuple[str, int]:
    """The file or folder to rename into place, and its number of rows."""
    scratch.mkdir()
    store = RocksKV(scratch / ROCKSDB_FOLDER) if kind == "rocksdb" else SqliteKV(scratch)
    left_out = keys.service("id") if new_id else None
    try:
        while (rows := backup.next_block()) is not None:
            batch = Batch()
            for key, value in rows:
                if key != left_out:
                    batch.put(key, value)
            store.apply(batch)
            wrote(len(rows))
    finally:
        store.close()
    if (scratch / SQLITE_LOG).exists():
        # Closing moves the log into the file, without an error if it cannot because the disk is full.
        raise StorageError(f"{scratch}: the store could not be written completely; is the disk full?")
    return (ROCKSDB_FOLDER if kind == "rocksdb" else FILE_NAME), backup.rows


def _flush(folder: Path) -> None:
    """Flush the directory, so that a new name in it is durable."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
