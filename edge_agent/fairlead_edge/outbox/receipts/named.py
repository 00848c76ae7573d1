"""Messages that were accepted together, by their names: which id and author each offset has.

Kept from acceptance for as long as the messages wait, and behind that for as long as it is remembered where they went:
what left is noted by its offsets alone (``departure``), and no id is written twice.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead_edge.outbox.receipts.mark import AUTHOR_BYTES, ID_BYTES, NO_AUTHOR

SPAN_MAX: Final = 4096
"""Offsets from the first to the last of one row of names, or of one page of departures: who looks for what an offset
belongs to has to look so far, and no farther."""
_OFFSET_BYTES: Final = 2
_PLACE: Final = struct.Struct(">qqqqdI")


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """Ids end to end.  ``authors``: none where none of them has one, one where all have the same, else each its own.

    ``offsets``: from the first, two bytes each; none where they are consecutive.
    """

    first: int
    span: int
    enqueued: float
    ids: bytes
    authors: bytes = b""
    offsets: bytes = b""

    def checksum(self, queue: int, epoch: int) -> int:
        """As messages of this epoch in the queue of this number."""
        place = _PLACE.pack(queue, epoch, self.first, self.span, self.enqueued, len(self.authors))
        return zlib.crc32(self.ids, zlib.crc32(self.offsets, zlib.crc32(self.authors, zlib.crc32(place))))


class Named(msgspec.Struct, frozen=True):
    """One message among them."""

    offset: int
    author: bytes


def names(offsets: Sequence[int], marks: Sequence[bytes], enqueued: float) -> list[Names]:
    """Of messages with these offsets, which ascend, and marks (``mark``)."""
    found = []
    begin = 0
    while begin < len(offsets):
        first = offsets[begin]
        end = len(offsets)
        if offsets[-1] - first >= SPAN_MAX:
            end = next(index for index in range(begin, end) if offsets[index] - first >= SPAN_MAX)
        found.append(_row(offsets[begin:end], marks[begin:end], enqueued))
        begin = end
    return found


def _row(offsets: Sequence[int], marks: Sequence[bytes], enqueued: float) -> Names:
    first, span = offsets[0], offsets[-1] - offsets[0]
    if len(marks) == 1:
        [one] = marks
        author = one[ID_BYTES:]
        return Names(
            first=first, span=0, enqueued=enqueued, ids=one[:ID_BYTES], authors=b"" if author == NO_AUTHOR else author
        )
    authors = b"".join([each[ID_BYTES:] for each in marks])
    one = authors[:AUTHOR_BYTES]
    if authors == one * len(marks):
        authors = b"" if one == NO_AUTHOR else one
    is_dense = span == len(marks) - 1
    return Names(
        first=first,
        span=span,
        enqueued=enqueued,
        ids=b"".join([each[:ID_BYTES] for each in marks]),
        authors=authors,
        offsets=b"" if is_dense else struct.pack(f">{len(offsets)}H", *[each - first for each in offsets]),
    )


def find(among: Names, id: bytes) -> Named | None:
    """The message of this id."""
    at = among.ids.find(id)
    while at >= 0 and at % ID_BYTES:
        at = among.ids.find(id, at + 1)
    if at < 0:
        return None
    index = at // ID_BYTES
    offset = index
    if among.offsets:
        offset = int.from_bytes(among.offsets[index * _OFFSET_BYTES : (index + 1) * _OFFSET_BYTES], "big")
    author = among.authors or NO_AUTHOR
    if len(author) > AUTHOR_BYTES:
        author = author[index * AUTHOR_BYTES : (index + 1) * AUTHOR_BYTES]
    return Named(among.first + offset, author)
