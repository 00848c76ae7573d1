"""Bodies in the tables: packed end to end, and checked against what was accepted when they are read.

Packing compresses if that pays; it is safe on any thread, because threads do not share compressors.  A short message
that arrived alone stays uncompressed: saving a fifth of its bytes (its envelope is as large again) would cost 10 µs of
CPU, a tenth of the cost of accepting and sending it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

import apsw
import zstandard

from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.envelope import expiry_checksum, reference_checksum, run_checksum
from fairlead_edge.outbox.gaps import Damage
from fairlead_edge.outbox.outbox import Item
from fairlead_edge.outbox.queues import QueueId

LEVEL: Final = 1
PACKED_MIN: Final = 512
"""The size from which compression pays."""
PLAIN: Final = ""
ZSTD: Final = "zstd"

_own = threading.local()


def pack(content: bytes) -> tuple[str, bytes]:
    """The encoding and the bytes to store."""
    if len(content) < PACKED_MIN:
        return PLAIN, content
    if not hasattr(_own, "compressor"):
        _own.compressor = zstandard.ZstdCompressor(level=LEVEL)
    packed: bytes = _own.compressor.compress(content)
    return (ZSTD, packed) if len(packed) < len(content) else (PLAIN, content)


def unpack(encoding: str, content: bytes, size: int) -> bytes:
    """Undo ``pack``.  Raises ``ValueError`` unless ``size`` bytes come out."""
    unpacked: bytes
    if not isinstance(content, bytes):
        raise ValueError("it is not bytes")
    if encoding == PLAIN:
        unpacked = content
    elif encoding == ZSTD:
        if not hasattr(_own, "decompressor"):
            _own.decompressor = zstandard.ZstdDecompressor()
        try:
            # Damaged content may claim any size, so bound it before unpacking.
            if zstandard.frame_content_size(content) != size:
                raise ValueError(f"it does not unpack to {size} bytes")
            unpacked = _own.decompressor.decompress(content)
        except zstandard.ZstdError as error:
            raise ValueError(str(error)) from None
    else:
        raise ValueError("its encoding is unknown")
    if len(unpacked) != size:
        raise ValueError(f"it does not have {size} bytes")
    return unpacked


ENVELOPE: Final = 5
"""The first column of a row that belongs to its run."""
AHEAD: Final = 16
"""How many small segments (messages that arrived alone, one after the other) are read at once."""
SMALL_BYTES: Final = 4096
SEGMENTS_KEPT: Final = 4
"""How many unpacked segments a reader keeps; few, since a queue mostly refers to one segment after the other."""


class UnreadableBody(Exception):
    """A body differs from what was stored, as the message says."""


class Bodies:
    """Reads bodies from their segments; unpacks each segment once, and caches the latest few."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._unpacked: dict[int, bytes | UnreadableBody] = {}
        self._sound: tuple[QueueId, Sequence[Any]] | None = None
        """The last envelope that was found intact: consecutive messages of one run share it."""
        self._topic = ""
        self._ahead: dict[int, Sequence[Any]] = {}
        """Segments that were read together with the one before them."""
        self._follows: int | None = None
        """The segment that follows a small one."""

    def checked(self, queue: QueueId, row: Sequence[Any]) -> Item | Damage:
        """The message of one row of ``statements`` (live, all, one), or the damage if it is not what was stored."""
        offset, segment, start, size, expected = row[:ENVELOPE]
        envelope = row[ENVELOPE:]
        _, _, epoch, enqueued, expires, named, _, run, _ = envelope
        if self._sound != (queue, envelope):
            if not is_sound(queue, envelope):
                return Damage(offset, "", "its envelope on disk is damaged")
            self._sound, self._topic = (queue, envelope), text(named)
        topic = self._topic
        try:
            body = self.body(segment, start, size)
        except UnreadableBody as error:
            return Damage(offset, topic, str(error))
        if reference_checksum(run, offset, body) != expected:
            return Damage(offset, topic, "its body on disk is damaged")
        return Item(offset, epoch, topic, enqueued, expires, body)

    def body(self, segment: int, start: int, size: int) -> bytes:
        """The body's bytes, not yet compared with its checksum.  Raises ``UnreadableBody``."""
        content = self._unpacked.get(segment)
        if content is None:
            content = self._unpack(segment)
            while len(self._unpacked) >= SEGMENTS_KEPT:
                del self._unpacked[next(iter(self._unpacked))]
            self._unpacked[segment] = content
        if isinstance(content, UnreadableBody):
            raise content
        if not isinstance(start, int) or not isinstance(size, int):
            raise UnreadableBody("its place on disk is damaged")
        return content[start : start + size]

    def _unpack(self, segment: int) -> bytes | UnreadableBody:
        stored = self._stored(segment)
        if stored is None:
            return UnreadableBody("its body is missing on disk")
        encoding, packed, size = stored
        is_small = isinstance(packed, bytes) and len(packed) < SMALL_BYTES
        self._follows = segment + 1 if is_small and isinstance(segment, int) else None
        try:
            return unpack(text(encoding), packed, size)
        except ValueError as error:
            return UnreadableBody(f"its body on disk is damaged: {error}")

    def _stored(self, segment: int) -> Sequence[Any] | None:
        if segment in self._ahead:
            return self._ahead.pop(segment)
        if segment != self._follows:
            return next(iter(rows(self._connection, sql.SEGMENT, (segment,))), None)
        last = segment + AHEAD - 1
        self._ahead = {id: stored for id, *stored in rows(self._connection, sql.SEGMENTS_BETWEEN, (segment, last))}
        return self._ahead.pop(segment, None)


def text(read: Any) -> str:
    """The text of a column that was read as bytes."""
    return read.decode(errors="backslashreplace") if isinstance(read, bytes) else ""


def row_checksum(
    queue: QueueId, first: Any, last: Any, epoch: Any, enqueued: Any, expires: Any, topic: Any, inherits: Any = None
) -> int | None:
    """The checksum of a run with these columns; None if their types are wrong."""
    if not isinstance(enqueued, float) or not isinstance(expires, float | None):
        return None
    return run_checksum(
        queue,
        first=first,
        last=last,
        epoch=epoch,
        enqueued=enqueued,
        expires=expires,
        topic=topic,
        inherits=inherits,
    )


def is_sound(queue: QueueId, envelope: Sequence[Any]) -> bool:
    """Whether an envelope, as ``statements`` reads it, and its expiry time are what was stored."""
    first, last, epoch, enqueued, expires, topic, named, run, expiry = envelope
    inherits = None if named is None else text(named)
    made = row_checksum(queue, first, last, epoch, enqueued, expires, text(topic), inherits)
    if run is None or made != run:
        return False
    return inherits is None or expiry_checksum(run, expires) == expiry
