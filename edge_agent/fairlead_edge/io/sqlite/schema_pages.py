"""A copy of a store's schema pages beside it: without them, nothing of a damaged file can be read.

They are one or two pages, and change only with a migration.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from pathlib import Path
from typing import Final

import apsw

from fairlead_edge.io.sqlite import statements as sql
from fairlead_edge.io.sqlite.rows import rows

SCHEMA_PAGES_MAX: Final = 16
USER_VERSION: Final = 60
"""Offset of the user version in the first page."""


def keep(connection: apsw.Connection, file: int, path: Path) -> None:
    """Copy the schema pages of the open ``file`` to ``path``; if this fails, the next opening does it."""
    rows(connection, sql.CHECKPOINT_FULL)
    numbers = [row[0] for row in rows(connection, sql.SCHEMA_PAGES)]
    page_bytes = int(connection.pragma("page_size"))
    if not numbers or len(numbers) > SCHEMA_PAGES_MAX:
        return
    pages = b"".join(
        struct.pack("<I", number) + os.pread(file, page_bytes, (number - 1) * page_bytes) for number in sorted(numbers)
    )
    content = struct.pack("<II", zlib.crc32(pages), page_bytes) + pages
    with contextlib.suppress(OSError):
        if not path.exists() or path.read_bytes() != content:
            draft = path.with_name(path.name + ".draft")
            draft.write_bytes(content)
            draft.replace(path)


def version(kept: Path) -> int | None:
    """The ``user_version`` in the copied pages; None if there is no sound copy."""
    pages, _ = _read(kept)
    return int.from_bytes(pages[4 + USER_VERSION : 8 + USER_VERSION], "big") if pages else None


def _read(kept: Path) -> tuple[bytes, int]:
    """The pages, each preceded by its number, and the page size; empty if there is no sound copy."""
    try:
        content = kept.read_bytes()
        crc, page_bytes = struct.unpack_from("<II", content)
    except (OSError, struct.error):
        return b"", 0
    pages = content[8:]
    return (pages, page_bytes) if zlib.crc32(pages) == crc else (b"", 0)


def restore(file: Path, kept: Path, *, unless_newer: bool = False) -> bool:
    """Write the copied pages into a damaged file; False if there is no sound copy.

    ``unless_newer``: only if the file has the same ``user_version``, not if it was migrated after the copy.
    """
    pages, page_bytes = _read(kept)
    if not pages:
        return False
    with file.open("r+b") as opened:
        if unless_newer:
            opened.seek(USER_VERSION)
            if opened.read(4) != pages[4 + USER_VERSION : 8 + USER_VERSION]:
                return False
        size = opened.seek(0, os.SEEK_END)
        for at in range(0, len(pages), page_bytes + 4):
            (number,) = struct.unpack_from("<I", pages, at)
            page = bytearray(pages[at + 4 : at + 4 + page_bytes])
            if number == 1:  # set the file's length, and empty the freelist, which reading does not need
                struct.pack_into(">III", page, 28, max(1, size // page_bytes), 0, 0)
                page[92:96] = page[24:28]
            opened.seek((number - 1) * page_bytes)
            opened.write(page)
    return True
