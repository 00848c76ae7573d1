"""A store made of a backup, in a folder that has none.

    data_dir/lock ─→ data_dir/restoring/…  rows, flushed ─→ the end was checked ─→ renamed to its place

A process killed before the renaming leaves only ``restoring``, which the next attempt removes; no service reads it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from fairlead_messaging.api.errors import StorageError
from fairlead_messaging.server.backup.decoding import Decoder
from fairlead_messaging.server.io.stores.data_dir import ServiceDataDir
from fairlead_messaging.server.io.stores.offline_store import ROCKSDB_FOLDER, Kind
from fairlead_messaging.server.io.stores.rocksdb_kv import RocksKV
from fairlead_messaging.server.io.stores.sqlite_kv import FILE_NAME, SqliteKV
from fairlead_messaging.server.log import keys
from fairlead_messaging.server.store.batch import Batch

RESTORING = "restoring"
SQLITE_LOG = f"{FILE_NAME}-wal"


class NotEmpty(StorageError):
    """There is a store already: a backup never replaces one."""


def restore(
    backup: Decoder, data_dir: Path, kind: Kind, now: str, *, new_id: bool, wrote: Callable[[int], None]
) -> int:
    """Rows written, all of ``backup``; ``wrote`` gets how many rows each block had.

    ``new_id``: the service will give itself an id when it starts, so that readers take it for another one.
    Raises: NotEmpty; StorageError when the folder is in use or cannot be written; BadBackup. Then there is no store.
    """
    folder = ServiceDataDir(data_dir, now)
    try:
        for name in (ROCKSDB_FOLDER, FILE_NAME, SQLITE_LOG):
            # A log of another file would be read into the new one.
            if os.path.lexists(data_dir / name):
                raise NotEmpty(f"{data_dir} holds a store already ({name}); name an empty folder, or move that away")
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
    """What to rename, and how many rows it has."""
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
        # Closing folds it into the file, and does not say when it could not: the disk is full.
        raise StorageError(f"{scratch}: the store could not be written whole; is the disk full?")
    return (ROCKSDB_FOLDER if kind == "rocksdb" else FILE_NAME), backup.rows


def _flush(folder: Path) -> None:
    """The new name is on the disk, too."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
