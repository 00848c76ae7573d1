"""A backup: every row of a store in one file, from which a store of any kind can be restored.

    rows of one snapshot ─encode→ bytes ─Decoder→ header, blocks of rows, end

The file is a magic number and frames: kind (1 byte), length (4), CRC-32 of kind and content (4), content.  It is
complete when it ends with its end frame, which counts the rows and holds the SHA-256 of everything before it.  Keys
ascend, so no row occurs twice.  Reading is strict: damage or a missing part is an error, and never means fewer rows.

``io.stores.offline_store`` reads and writes the files.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Generator, Iterable, Iterator
from typing import Final, Protocol, TypeVar

import msgspec

# --- The format.

MAGIC: Final = b"fairlead-messaging-backup\n"
FORMAT: Final = 1
HEAD: Final = struct.Struct(">cII")
ROW: Final = struct.Struct(">II")
HEADER, ROWS, END = b"H", b"R", b"E"
FRAME_BYTES_MAX: Final = 256 * 1024 * 1024
"""The limit for the content of a frame, packed or not: far above the largest row, which came in one request."""


class BackupHeader(msgspec.Struct, frozen=True):
    """The service and format of a backup; ``taken_ms`` is the time of its snapshot."""

    format: int
    program: str
    service: str
    taken_ms: int


class End(msgspec.Struct, frozen=True):
    """The end frame; ``sha256`` is over every byte before it."""

    rows: int
    bytes: int
    sha256: str


def framed(kind: bytes, content: bytes) -> bytes:
    """One frame."""
    return HEAD.pack(kind, len(content), zlib.crc32(content, zlib.crc32(kind))) + content


# --- Sources.


class Source(Protocol):
    """A source of bytes."""

    def read(self, size: int, /) -> bytes:
        """Exactly ``size`` bytes, fewer only at the end."""
        ...


class ByteSink(Protocol):
    """A destination that takes all bytes written to it."""

    def write(self, data: bytes, /) -> int: ...


class ChunkReader:
    """Lets chunks of any sizes be read in other sizes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = bytearray()

    def read(self, size: int, /) -> bytes:
        while len(self._left) < size and (piece := next(self._pieces, None)) is not None:
            self._left += piece
        found = bytes(self._left[:size])
        del self._left[:size]
        return found


class TeeSource:
    """Reads from ``source`` and writes a copy to ``sink``."""

    def __init__(self, source: Source, sink: ByteSink) -> None:
        self._source, self._sink = source, sink

    def read(self, size: int, /) -> bytes:
        found = self._source.read(size)
        self._sink.write(found)
        return found


# --- Writing.

BLOCK_BYTES: Final = 1024 * 1024
"""The size of keys and values in a frame, before they are packed; a larger row has a frame to itself."""
LEVEL: Final = 1
"""The level of zlib: speed matters more than the ratio."""


def encode(
    rows: Iterable[tuple[bytes, bytes]], *, program: str, service: str, taken_ms: int
) -> Generator[tuple[bytes, int]]:
    """Chunks of the file in order, each with its number of rows.  ``rows`` ascend by key."""
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


# --- Reading.

T = TypeVar("T")
Rows = list[tuple[bytes, bytes]]
TAKEN_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999."""
CUT_SHORT: Final = "it ends too early: the backup was cut short"


class BadBackup(ValueError):
    """A source is not a backup, or an incomplete or damaged one."""


class Decoder:
    """Reads a backup from ``source`` from its beginning.

    ``header`` is available at once; ``next_block`` returns the rows, and None only after it has checked the end frame.
    Raises: BadBackup; OSError as ``source`` does.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._digest = hashlib.sha256()
        self._rows = self._bytes = 0
        self._last: bytes | None = None
        if self._source.read(len(MAGIC)) != MAGIC:
            raise BadBackup("it does not begin like a backup of messaging")
        self._digest.update(MAGIC)
        kind, content = self._frame()
        if kind != HEADER:
            raise BadBackup("its header is missing")
        self.header = _decoded(content, BackupHeader, "header")
        if self.header.format != FORMAT:
            raise BadBackup(f"it has format {self.header.format}; this program reads format {FORMAT}")
        if not 0 <= self.header.taken_ms <= TAKEN_MS_MAX:
            raise BadBackup("its header names no time")

    @property
    def rows(self) -> int:
        """How many rows have been read."""
        return self._rows

    def next_block(self) -> Rows | None:
        """The rows of the next frame; None at the end, after checking the end frame."""
        before = self._digest.hexdigest()
        kind, content = self._frame()
        if kind == ROWS:
            return self._unpacked(content)
        if kind != END:
            raise BadBackup(f"a frame has the unknown kind {kind!r}")
        end = _decoded(content, End, "end")
        if end != End(rows=self._rows, bytes=self._bytes, sha256=before):
            raise BadBackup(f"it should have {end.rows} rows and has {self._rows}, or they are not those written")
        if self._source.read(1):
            raise BadBackup("something follows its end")
        return None

    def _frame(self) -> tuple[bytes, bytes]:
        head = self._source.read(HEAD.size)
        if len(head) < HEAD.size:
            raise BadBackup(CUT_SHORT)
        kind, length, checksum = HEAD.unpack(head)
        if length > FRAME_BYTES_MAX:
            raise BadBackup(f"a frame of {length} bytes is above the limit of {FRAME_BYTES_MAX}: it is damaged")
        content = self._source.read(length)
        if len(content) < length:
            raise BadBackup(CUT_SHORT)
        if zlib.crc32(content, zlib.crc32(kind)) != checksum:
            raise BadBackup(f"it is damaged after {self._rows} rows: a checksum differs")
        self._digest.update(head)
        self._digest.update(content)
        return kind, content

    def _unpacked(self, content: bytes) -> Rows:
        unpacking = zlib.decompressobj()
        try:
            block = unpacking.decompress(content, FRAME_BYTES_MAX)
        except zlib.error as error:
            raise BadBackup(f"a block cannot be unpacked: {error}") from None
        if not unpacking.eof or unpacking.unused_data:
            raise BadBackup("a block is not as long as it should be")
        found: Rows = []
        at = 0
        while at < len(block):
            if at + ROW.size > len(block):
                raise BadBackup("a block ends inside a row")
            key_bytes, value_bytes = ROW.unpack_from(block, at)
            start, middle = at + ROW.size, at + ROW.size + key_bytes
            at = middle + value_bytes
            if at > len(block):
                raise BadBackup("a block ends inside a row")
            key = block[start:middle]
            if self._last is not None and key <= self._last:
                raise BadBackup("its rows are not in order")
            self._last = key
            self._bytes += key_bytes + value_bytes
            found.append((key, block[middle:at]))
        self._rows += len(found)
        return found


def _decoded(content: bytes, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.MsgspecError as error:
        raise BadBackup(f"its {what} cannot be read: {error}") from None
