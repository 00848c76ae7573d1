"""SQLite's write-ahead log, folded into its file from outside, whatever SQLite itself still believes of it.

A log is a chain: each frame's checksum goes on from the one before.  SQLite believes it up to the first frame that does
not fit, so one flipped byte takes back every later commit without a word.  The pages behind it are mostly sound, and
rows have checksums of their own: all pages are taken, and what really is damaged is found row by row.
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
"""How many frames at the beginning show the current generation of the log, if its header does not."""


def fold(path: Path) -> int:
    """Write the log's pages, up to its last commit, into the file at ``path``, and remove it; returns how many.

    No connection may have the file open.  Done again after a crash in between it comes to the same.
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
        if 0 < page <= pages:  # otherwise where it belongs is lost, or cut off since
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
