"""How a store accesses its files: directly, or through encryption (``io.encryption``).

A store opens its SQLite file with ``connect``, and passes the content of small files beside it through ``seal`` and
``unseal``.  Code that reads the raw bytes of a file works with both: encryption changes the magic, but not the rest of
the first ``CLEAR_BYTES``, the sizes, or the frame headers of a log.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

import apsw

PAGE_BYTES: Final = 4096
SQLITE_MAGIC: Final = b"SQLite format 3\0"
SEALED_MAGIC: Final = b"FLseal1:"
"""Replaces SQLite's magic and is followed by the name of the data key (``KEY_NAME_BYTES``), so that no program takes an
encrypted file for a damaged one."""
KEY_NAME_BYTES: Final = 8
PLAIN_SCHEMA: Final = ".schema"
SEALED_SCHEMA: Final = ".sealed-schema"
"""Suffixes of the file with the pages that name the tables (``sqlite.schema_pages``)."""
CLEAR_BYTES: Final = 112
"""Readable bytes of the first page: SQLite's header, with sizes and versions, and the head of the schema table."""


def is_database(head: bytes) -> bool:
    """Whether this is the head of a SQLite file, encrypted or not."""
    return head.startswith((SQLITE_MAGIC, SEALED_MAGIC))


def key_name(head: bytes) -> str | None:
    """The id of the data key in a file header; "" if there is none, None if this is not a SQLite file header."""
    if head.startswith(SQLITE_MAGIC):
        return ""
    name = head[len(SEALED_MAGIC) : len(SEALED_MAGIC) + KEY_NAME_BYTES]
    return name.decode() if head.startswith(SEALED_MAGIC) and name.isalnum() and name.isascii() else None


class FileAccess(Protocol):
    """Access to the files of one store."""

    @property
    def schema_end(self) -> str:
        """The suffix of the file with the schema pages."""

    def connect(self, path: Path, *, flags: int = ..., statementcachesize: int = ...) -> apsw.Connection:
        """Open the SQLite file.  Raises ``apsw.Error``."""

    def seal(self, content: bytes, name: str) -> bytes:
        """``content`` in the form in which it is written into the small file ``name``."""

    def unseal(self, content: bytes, name: str) -> bytes:
        """The reverse of ``seal``; bytes after the sealed content are ignored.  Raises ``ValueError``."""


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
