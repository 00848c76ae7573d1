"""How receipts find a message: a mark of 20 bytes (its id and author), and rows of marks that were accepted together.

    id, 16 bytes │ author, 4 bytes: digest of the module whose token published it, zero for any other program

Only the author may ask for a receipt; if a message has none, the holder of the agent's own token, or any program if
modules have no tokens.

``Names`` holds the marks of one request while its messages wait, and then for as long as the agent remembers where they
went: departures are recorded by offset (``departure``), so no id is stored twice.
"""

from __future__ import annotations

import binascii
import functools
import hashlib
import re
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from fairlead_edge import ascii_case

ID_BYTES: Final = 16
AUTHOR_BYTES: Final = 4
MARK_BYTES: Final = ID_BYTES + AUTHOR_BYTES
NO_AUTHOR: Final = bytes(AUTHOR_BYTES)
MODULE_PROPERTY: Final = "connectionModuleId"
"""The stamp of a module's token (``authorship``)."""
_MODULE: Final = MODULE_PROPERTY.encode()
UNNAMED: Final = bytes(ID_BYTES)
"""Replaces an id that is not in our form; it is never found."""
_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_PREFIX: Final = b'{"id":"'
_ID_ENDS: Final = len(_PREFIX) + 2 * ID_BYTES


class _Signed(msgspec.Struct, rename="camel"):
    system_properties: dict[str, str | None] = {}


_signed = msgspec.json.Decoder(_Signed)


def id_of(text: str) -> bytes | None:
    """The id as bytes; None if the text cannot be the id of a message."""
    found = bytes.fromhex(text) if _ID.fullmatch(text) else UNNAMED
    return None if found == UNNAMED else found


def is_reserved(text: str) -> bool:
    """Whether the text has the form of an id but never belongs to a message."""
    return text == UNNAMED.hex()


def id_in(content: bytes) -> bytes:
    """The id of a stored message (``envelope.stored``)."""
    if not content.startswith(_PREFIX) or content[_ID_ENDS : _ID_ENDS + 1] != b'"':
        return UNNAMED
    try:
        return binascii.unhexlify(content[len(_PREFIX) : _ID_ENDS])
    except binascii.Error:
        return UNNAMED


def author(module: str) -> bytes:
    """The author part of a mark, for a module whose token was presented; "" for any other program."""
    if not module:
        return NO_AUTHOR
    return _digest(ascii_case.folded(module))


@functools.lru_cache(maxsize=1024)
def _digest(module: str) -> bytes:
    return hashlib.blake2s(module.encode(), digest_size=AUTHOR_BYTES).digest()


def author_in(content: bytes) -> bytes:
    """The author of a stored message, by the stamp that only the module's token gives (``authorship``)."""
    if _MODULE not in content:  # letters are never escaped in a stored message
        return NO_AUTHOR
    try:
        return author(_signed.decode(content).system_properties.get(MODULE_PROPERTY) or "")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return NO_AUTHOR


def marker(module: str) -> Callable[[str], bytes]:
    """A function from ids to marks, for messages of one author."""
    behind = author(module)
    return lambda id: (id_of(id) or UNNAMED) + behind


def of(content: bytes) -> bytes:
    """The mark of a stored message, with the author read from its content."""
    return id_in(content) + author_in(content)


SPAN_MAX: Final = 4096
"""The most offsets that a row of names or a page of departures spans, which bounds the search for an offset."""
_OFFSET_BYTES: Final = 2
_PLACE: Final = struct.Struct(">qqqqdI")


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """Ids, concatenated.  ``authors``: empty if none has an author, one entry if all have the same, else one for each.

    ``offsets``: relative to the first, two bytes each; empty if they are consecutive.
    """

    first: int
    span: int
    enqueued: float
    ids: bytes
    authors: bytes = b""
    offsets: bytes = b""

    def checksum(self, queue: int, epoch: int) -> int:
        """The checksum of these names as messages of this epoch in the queue with this number."""
        place = _PLACE.pack(queue, epoch, self.first, self.span, self.enqueued, len(self.authors))
        return zlib.crc32(self.ids, zlib.crc32(self.offsets, zlib.crc32(self.authors, zlib.crc32(place))))


class Named(msgspec.Struct, frozen=True):
    """One message among them."""

    offset: int
    author: bytes


def names(offsets: Sequence[int], marks: Sequence[bytes], enqueued: float) -> list[Names]:
    """The rows for messages with these ascending offsets and marks."""
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
    """The message with this id; None if it is not among them."""
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
