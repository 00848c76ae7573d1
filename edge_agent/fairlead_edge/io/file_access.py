"""How a store reaches its files: as they are, or through encryption (``io.encryption``).

A store opens its SQLite file with ``connect``, and passes what it keeps in small files beside it through ``seal`` and
``unseal``.  Code that looks at the raw bytes of a file works on both kinds: encryption leaves the first
``CLEAR_BYTES`` of a file, all sizes, and the frames of a log as SQLite wrote them, and changes the file's magic only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

import apsw

PAGE_BYTES: Final = 4096
SQLITE_MAGIC: Final = b"SQLite format 3\0"
SEALED_MAGIC: Final = b"FLseal1:"
"""Instead of SQLite's, the name of the data key (``KEY_NAME_BYTES``) behind it: another program must not take an
encrypted file for a damaged one."""
KEY_NAME_BYTES: Final = 8
PLAIN_SCHEMA: Final = ".schema"
SEALED_SCHEMA: Final = ".sealed-schema"
"""Beside a file: the pages that name its tables (``sqlite.schema_pages``).  Where no ``.schema`` is, a version of this
program from before there was encryption refuses the file, instead of salvaging nothing of it."""
CLEAR_BYTES: Final = 112
"""Readable bytes of the first page: SQLite's header, with sizes and versions, and the head of the schema table."""


def is_database(head: bytes) -> bool:
    """Does a file that begins like this say that it is one of SQLite's, encrypted or not?"""
    return head.startswith((SQLITE_MAGIC, SEALED_MAGIC))


def key_name(head: bytes) -> str | None:
    """Which data key a file that begins like this was encrypted with; "" for none, None when its head says neither."""
    if head.startswith(SQLITE_MAGIC):
        return ""
    name = head[len(SEALED_MAGIC) : len(SEALED_MAGIC) + KEY_NAME_BYTES]
    return name.decode() if head.startswith(SEALED_MAGIC) and name.isalnum() and name.isascii() else None


class FileAccess(Protocol):
    """The files of one store."""

    @property
    def schema_end(self) -> str:
        """How the name of the file ends that holds the pages that name the tables."""

    def connect(self, path: Path, *, flags: int = ..., statementcachesize: int = ...) -> apsw.Connection:
        """Open the SQLite file.  Raises ``apsw.Error``."""

    def seal(self, content: bytes, name: str) -> bytes:
        """``content`` as it is written into the small file ``name``."""

    def unseal(self, content: bytes, name: str) -> bytes:
        """The opposite; what is behind the end of a sealed content is ignored.  Raises ``ValueError``."""


class PlainFiles:
    """Files without encryption."""

    schema_end = PLAIN_SCHEMA

    def connect(
        self,
        path: Path,
        *,
        flags: int = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE,
        statementcachesize: int = 100,
    ) -> apsw.Connection:
        return apsw.Connection(str(path), flags=flags, statementcachesize=statementcachesize)

    def seal(self, content: bytes, name: str) -> bytes:
        return content

    def unseal(self, content: bytes, name: str) -> bytes:
        return content


PLAIN: Final = PlainFiles()
