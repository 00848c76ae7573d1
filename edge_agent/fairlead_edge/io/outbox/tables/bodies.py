"""Messages read from the tables, each checked against what was accepted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import apsw

from fairlead_edge.io.outbox.tables import segment as segment_io
from fairlead_edge.io.outbox.tables import statements as sql
from fairlead_edge.io.sqlite.rows import rows
from fairlead_edge.outbox.checksum import of_expiry, of_reference, of_run
from fairlead_edge.outbox.gaps import Damage
from fairlead_edge.outbox.outbox import Item
from fairlead_edge.outbox.queue_id import QueueId

ENVELOPE: Final = 5
"""From this column on a row says what its run says."""
AHEAD: Final = 16
"""Segments that are read at once where they are small: messages that came alone, one after the other."""
SMALL_BYTES: Final = 4096
SEGMENTS_KEPT: Final = 4
"""Unpacked segments one reader keeps: references of one queue mostly walk through one segment after the other."""


class UnreadableBody(Exception):
    """A body is not there any more as it was stored; the text says what is wrong."""


class Bodies:
    """Reads bodies out of their segments; unpacks each segment once in its life, and keeps the latest few."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._unpacked: dict[int, bytes | UnreadableBody] = {}
        self._sound: tuple[QueueId, Sequence[Any]] | None = None
        """The envelope that was found sound last: messages of one run follow each other and share it."""
        self._topic = ""
        self._ahead: dict[int, Sequence[Any]] = {}
        """Segments that were read with the one before them."""
        self._follows: int | None = None
        """Behind a small segment the next one."""

    def checked(self, queue: QueueId, row: Sequence[Any]) -> Item | Damage:
        """The message of one row of ``statements`` (live, all, one), if it and its envelope are what was stored."""
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
        if of_reference(run, offset, body) != expected:
            return Damage(offset, topic, "its body on disk is damaged")
        return Item(offset, epoch, topic, enqueued, expires, body)

    def body(self, segment: int, start: int, size: int) -> bytes:
        """Raises ``UnreadableBody``; only a checksum shows whether what is read is what was stored."""
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
            return segment_io.unpack(text(encoding), packed, size)
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
    """Of a column that was read as bytes."""
    return read.decode(errors="backslashreplace") if isinstance(read, bytes) else ""


def run_checksum(
    queue: QueueId, first: Any, last: Any, epoch: Any, enqueued: Any, expires: Any, topic: Any, inherits: Any = None
) -> int | None:
    """The checksum a run with these columns has; None when they are not even of their types."""
    if not isinstance(enqueued, float) or not isinstance(expires, float | None):
        return None
    return of_run(
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
    """Is an envelope, as ``statements`` reads it, what was stored, and when it expires what was said last?"""
    first, last, epoch, enqueued, expires, topic, named, run, expiry = envelope
    inherits = None if named is None else text(named)
    made = run_checksum(queue, first, last, epoch, enqueued, expires, text(topic), inherits)
    if run is None or made != run:
        return False
    return inherits is None or of_expiry(run, expires) == expiry
