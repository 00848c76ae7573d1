"""From the rows of a snapshot to the bytes of a backup."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Generator, Iterable, Iterator
from typing import Final

import msgspec

from fairlead_messaging.server.backup.frame import END, FORMAT, HEADER, MAGIC, ROW, ROWS, BackupHeader, End, framed

BLOCK_BYTES: Final = 1024 * 1024
"""Of keys and values in a frame, before they are packed; a larger row has one to itself."""
LEVEL: Final = 1
"""Of zlib: the disk is waited for, not the ratio."""


def encode(
    rows: Iterable[tuple[bytes, bytes]], *, program: str, service: str, taken_ms: int
) -> Generator[tuple[bytes, int]]:
    """Pieces of the file in order, each with the number of rows in it.  ``rows`` ascend by key."""
    digest = hashlib.sha256()
    count = size = 0

    def piece(data: bytes, held: int) -> tuple[bytes, int]:
        digest.update(data)
        return data, held

    header = BackupHeader(format=FORMAT, program=program, service=service, taken_ms=taken_ms)
    yield piece(MAGIC + framed(HEADER, msgspec.json.encode(header)), 0)
    for block, held in _blocks(rows):
        count, size = count + held, size + len(block) - held * ROW.size
        yield piece(framed(ROWS, zlib.compress(block, LEVEL)), held)
    yield framed(END, msgspec.json.encode(End(rows=count, bytes=size, sha256=digest.hexdigest()))), 0


def _blocks(rows: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, int]]:
    parts: list[bytes] = []
    size = held = 0
    for key, value in rows:
        parts += (ROW.pack(len(key), len(value)), key, value)
        size, held = size + len(key) + len(value), held + 1
        if size >= BLOCK_BYTES:
            yield b"".join(parts), held
            parts, size, held = [], 0, 0
    if held:
        yield b"".join(parts), held
