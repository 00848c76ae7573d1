"""Folds a damaged SQLite write-ahead log into its file without SQLite, beyond the point where SQLite would stop.

The checksums of a log's frames form a chain, and SQLite ignores all frames after the first mismatch, so one flipped
byte silently takes back every later commit.  Most pages after it are sound, and rows have their own checksums:
therefore all pages are used, and real damage is found row by row.
Format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

HEADER_BYTES: Final = 32
FRAME_HEADER_BYTES: Final = 24
PAGE_BYTES: Final = 4096
FRAME_BYTES: Final = FRAME_HEADER_BYTES + PAGE_BYTES
FIRST_FRAMES: Final = 9
"""How many of the first frames decide which generation of the log is current, if its header does not."""


def fold(path: Path) -> int:
    """Write the pages of the log, up to its last commit, into the file at ``path``, and remove the log.

    Returns the number of pages.  No connection may have the file open.  Repeating it after a crash is safe.
    """
    log = Path(f"{path}-wal")
    try:
        with log.open("rb") as source, path.open("r+b") as file:
            folded = _fold(source, file)
            file.flush()
            os.fsync(file.fileno())
    except FileNotFoundError:
        return 0
    log.unlink()
    Path(f"{path}-shm").unlink(missing_ok=True)
    return folded


def _fold(source: BinaryIO, file: BinaryIO) -> int:
    count = (source.seek(0, os.SEEK_END) - HEADER_BYTES) // FRAME_BYTES
    present = _salts(source, count)
    longest = file.seek(0, os.SEEK_END) // PAGE_BYTES + max(0, count)
    last = pages = 0
    for number, (_, size, salts) in enumerate(_heads(source, count), 1):
        if salts == present and 0 < size <= longest:
            last, pages = number, size
    folded = 0
    for number, (page, _, _) in enumerate(_heads(source, last)):
        if 0 < page <= pages:  # otherwise its number is damaged, or the page was truncated later
            source.seek(HEADER_BYTES + number * FRAME_BYTES + FRAME_HEADER_BYTES)
            file.seek((page - 1) * PAGE_BYTES)
            file.write(source.read(PAGE_BYTES))
            folded += 1
    if last:
        file.truncate(pages * PAGE_BYTES)
    return folded


def _heads(source: BinaryIO, count: int) -> Iterator[tuple[int, int, bytes]]:
    """Page, size of the file after a commit (else 0), and salts of each frame."""
    for number in range(count):
        source.seek(HEADER_BYTES + number * FRAME_BYTES)
        page, size, salts = struct.unpack(">2I8s", source.read(16))
        yield page, size, salts


def _salts(source: BinaryIO, count: int) -> bytes:
    source.seek(16)
    salt = source.read(8)
    first = [salts for _, _, salts in _heads(source, min(count, FIRST_FRAMES))]
    return salt if salt in first or not first else Counter(first).most_common(1)[0][0]
