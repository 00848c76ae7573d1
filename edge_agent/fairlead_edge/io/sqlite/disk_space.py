"""Space on the disk: a store has it before it needs it, so that giving space back never needs any, and gives back most.

    commit ─▶ frames in the log ─checkpoint─▶ pages of the file
                 has WAL_BYTES from the start    has its blocks before the commit

A checkpoint on a full disk thus always succeeds, and afterwards the log is written from its beginning.  Without this a
store on a full disk could not note that its messages were delivered: the log cannot grow, and it cannot be folded back
because the file cannot grow either.
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
"""Initial size of the log: more than any step that frees space writes."""
WAL_BYTES_MIN: Final = 128 * 1024
SHORT_BYTES: Final = 16 * 1024 * 1024
"""With less free than this, a full store is taken for a full disk."""
FREE_SOME: Final = "free some room; what is sent gives room back"
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class Room:
    """Of the SQLite file at ``path``, which is open already, and stays open longer than this.

    Closing any descriptor of a file drops this process's locks on it, so ours is closed after SQLite's.
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
        """Before a commit: allocate blocks for all pages the file will have.  Raises ``apsw.FullError``."""
        wanted = int(connection.pragma("page_count")) * PAGE_BYTES
        if wanted > self._bytes:
            self._bytes = os.fstat(self._file).st_size  # a checkpoint may have made it shorter or longer
        elif wanted < self._bytes:
            self._bytes = wanted  # the next checkpoint will cut it
        if wanted > self._bytes:
            _allocate(self._file, self._bytes, wanted)
            self._bytes = wanted

    def is_short(self) -> bool:
        """Is it the disk that is full, rather than the store's own limit?"""
        found = os.statvfs(self._path)
        return found.f_bavail * found.f_frsize < SHORT_BYTES

    def close(self) -> None:
        os.close(self._file)

    def _reserve_log(self) -> None:
        """Reserve as much as there is space for; without a reserve the log grows as usual."""
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
        # A file system that cannot, or a limit: SQLite finds out when it writes.


UNUSED_PAGES_MIN: Final = 4096
"""16 MiB: less than this is kept for the next outage."""
GIVE_BACK_PAGES: Final = 1024


def give_back(connection: apsw.Connection) -> int:
    """Give pages that hold nothing back to the file system, in one bounded step; returns the bytes given back.

    Moving pages wears the disk, too, so it is done only when most are unused.
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
