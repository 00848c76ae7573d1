"""Disk space: a store allocates its blocks in advance, so that freeing space works on a full disk.

    commit ─▶ frames in the log ─checkpoint─▶ pages of the file
                 has WAL_BYTES from the start    has its blocks before the commit

So a checkpoint succeeds even on a full disk, and afterwards the log is written from its beginning.  Without this, a
store on a full disk could not record that its messages were delivered: the log cannot grow, and it cannot be
checkpointed because the file cannot grow either.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

import apsw

from fairlead_edge.io.sqlite import statements as sql
from fairlead_edge.io.sqlite.rows import rows

PAGE_BYTES: Final = 4096
WAL_BYTES: Final = 2 * 1024 * 1024
"""Initial size of the log, larger than any transaction that frees space."""
WAL_BYTES_MIN: Final = 128 * 1024
SHORT_BYTES: Final = 16 * 1024 * 1024
"""With less free space than this, SQLite's "full" is taken for a full disk."""
FREE_SOME: Final = "free some room; sending messages frees room, too"
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class Room:
    """Allocates space for the SQLite file at ``path``, which must be open before and closed before ``close``.

    Closing any descriptor of a file drops this process's POSIX locks on it, so ours is closed after SQLite's.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._bytes = os.fstat(self._file).st_size
        self._reserve_log()

    @property
    def file(self) -> int:
        """The descriptor, for reading."""
        return self._file

    def take(self, connection: apsw.Connection) -> None:
        """Allocate blocks for all pages that the file will have after the commit.  Raises ``apsw.FullError``."""
        wanted = int(connection.pragma("page_count")) * PAGE_BYTES
        if wanted > self._bytes:
            self._bytes = os.fstat(self._file).st_size  # a checkpoint may have changed it
        elif wanted < self._bytes:
            self._bytes = wanted  # the next checkpoint will truncate it
        if wanted > self._bytes:
            _allocate(self._file, self._bytes, wanted)
            self._bytes = wanted

    def is_short(self) -> bool:
        """Whether the disk is full, rather than the store's own limit reached."""
        found = os.statvfs(self._path)
        return found.f_bavail * found.f_frsize < SHORT_BYTES

    def close(self) -> None:
        os.close(self._file)

    def _reserve_log(self) -> None:
        """Reserve as much as possible for the log; without a reserve it grows as usual."""
        opened = os.open(f"{self._path}-wal", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(opened).st_size
            wanted = WAL_BYTES
            while size < wanted and wanted >= WAL_BYTES_MIN:
                try:
                    return _allocate(opened, size, wanted)
                except apsw.FullError:
                    wanted //= 2
        finally:
            os.close(opened)


def _allocate(file: int, since: int, until: int) -> None:
    try:
        os.posix_fallocate(file, since, until - since)
    except OSError as error:
        if error.errno in _FULL:
            raise apsw.FullError("the disk is full") from None
        # A file system without fallocate, or a limit: SQLite will find out when it writes.


UNUSED_PAGES_MIN: Final = 4096
"""16 MiB; fewer unused pages are kept for the next outage."""
GIVE_BACK_PAGES: Final = 1024


def give_back(connection: apsw.Connection) -> int:
    """Return unused pages to the file system, in one bounded step; returns how many bytes.

    Moving pages wears the disk, so this is done only if most pages are unused.
    """
    [(unused,)] = rows(connection, sql.FREELIST_COUNT)
    [(pages,)] = rows(connection, sql.PAGE_COUNT)
    if unused < UNUSED_PAGES_MIN or 2 * unused < pages:
        return 0
    rows(connection, sql.incremental_vacuum(GIVE_BACK_PAGES))
    [(left,)] = rows(connection, sql.PAGE_COUNT)
    [(page_bytes,)] = rows(connection, sql.PAGE_SIZE)
    given: int = (pages - left) * page_bytes
    return given
