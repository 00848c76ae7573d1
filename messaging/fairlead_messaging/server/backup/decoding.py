"""From the bytes of a backup to its rows, strictly: what is damaged, cut short or added to is refused."""

from __future__ import annotations

import hashlib
import zlib
from typing import Final, TypeVar

import msgspec

from fairlead_messaging.server.backup.frame import (
    END,
    FORMAT,
    FRAME_BYTES_MAX,
    HEAD,
    HEADER,
    MAGIC,
    ROW,
    ROWS,
    BackupHeader,
    End,
)
from fairlead_messaging.server.backup.sources import Source

T = TypeVar("T")
Rows = list[tuple[bytes, bytes]]
TAKEN_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999."""
CUT_SHORT: Final = "it ends too early: the backup was cut short"


class BadBackup(ValueError):
    """It is no backup, or not a whole and undamaged one."""


class Decoder:
    """Reads one backup from ``source`` from its beginning.

    ``header`` is there at once; ``blocks`` gives the rows; after its last block the end frame was checked, too.
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
        """Read so far."""
        return self._rows

    def next_block(self) -> Rows | None:
        """The rows of the next frame; None at the end, which was checked then."""
        before = self._digest.hexdigest()
        kind, content = self._frame()
        if kind == ROWS:
            return self._unpacked(content)
        if kind != END:
            raise BadBackup(f"a frame of kind {kind!r} is not known")
        end = _decoded(content, End, "end")
        if end != End(rows=self._rows, bytes=self._bytes, sha256=before):
            raise BadBackup(f"it counts {end.rows} rows and {self._rows} are there, or they are not those written")
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
