"""What a message is found by: its id and its author, 20 bytes.

    id, 16 bytes │ author, 4 bytes: digest of the module whose token published it, zero for any other program

A run keeps the marks of its messages end to end, each behind its offset (from the run's first, 4 bytes).

Only an author gets answers; of messages without one, the holder of the agent's own token, or any program where modules
have no tokens.
"""

from __future__ import annotations

import binascii
import functools
import hashlib
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

ID_BYTES: Final = 16
AUTHOR_BYTES: Final = 4
MARK_BYTES: Final = ID_BYTES + AUTHOR_BYTES
NO_AUTHOR: Final = bytes(AUTHOR_BYTES)
MODULE_PROPERTY: Final = "connectionModuleId"
"""The stamp of a module's token (``authorship``)."""
_MODULE: Final = MODULE_PROPERTY.encode()
UNNAMED: Final = bytes(ID_BYTES)
"""Stands for an id that is none of ours; it is never found."""
_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_PREFIX: Final = b'{"id":"'
_ID_ENDS: Final = len(_PREFIX) + 2 * ID_BYTES
_HEAD_BYTES: Final = _ID_ENDS + 1
_AROUND_ID: Final = (b"{", b'"', b"i", b"d", b'"', b":", b'"', b'"')


_OFFSET: Final = struct.Struct(">I")
_KEPT_BYTES: Final = _OFFSET.size + MARK_BYTES


class _Signed(msgspec.Struct, rename="camel"):
    system_properties: dict[str, str | None] = {}


_signed = msgspec.json.Decoder(_Signed)


def id_of(text: str) -> bytes | None:
    """None for what no message is called."""
    found = bytes.fromhex(text) if _ID.fullmatch(text) else UNNAMED
    return None if found == UNNAMED else found


def id_in(content: bytes) -> bytes:
    """The id of a stored message (``envelope.stored``)."""
    if not content.startswith(_PREFIX) or content[_ID_ENDS : _ID_ENDS + 1] != b'"':
        return UNNAMED
    try:
        return binascii.unhexlify(content[len(_PREFIX) : _ID_ENDS])
    except binascii.Error:
        return UNNAMED


def ids_in(contents: Sequence[bytes]) -> bytes:
    """``id_in`` of each, end to end; where all are as they should be, with one call for all."""
    heads = b"".join([content[:_HEAD_BYTES] for content in contents])
    columns = (heads[byte::_HEAD_BYTES] for byte in (*range(len(_PREFIX)), _ID_ENDS))
    if b"".join(columns) == b"".join(byte * len(contents) for byte in _AROUND_ID):
        try:
            return binascii.unhexlify(b"".join([content[len(_PREFIX) : _ID_ENDS] for content in contents]))
        except binascii.Error:
            pass
    return b"".join([id_in(content) for content in contents])


def author(module: str) -> bytes:
    """Of a module whose token was shown; "" for any other program."""
    if not module:
        return NO_AUTHOR
    return _digest(module.lower())


@functools.lru_cache(maxsize=1024)
def _digest(module: str) -> bytes:
    return hashlib.blake2s(module.encode(), digest_size=AUTHOR_BYTES).digest()


def author_in(content: bytes) -> bytes:
    """Of a stored message: the stamp that only the module's token gives (``authorship``)."""
    if _MODULE not in content:  # no letter of a stored message is escaped
        return NO_AUTHOR
    try:
        return author(_signed.decode(content).system_properties.get(MODULE_PROPERTY) or "")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return NO_AUTHOR


def marker(module: str) -> Callable[[str], bytes]:
    """Makes marks of ids, for messages of one author."""
    behind = author(module)
    return lambda id: (id_of(id) or UNNAMED) + behind


def of(content: bytes) -> bytes:
    """Of a stored message whose author is not at hand."""
    return id_in(content) + author_in(content)


def kept(marks: Iterable[tuple[int, bytes]]) -> bytes:
    """Of a run: offsets from its first, and marks."""
    return b"".join(_OFFSET.pack(offset) + each for offset, each in marks)


def offset_of(marks: bytes, id: bytes) -> int | None:
    """Where in its run the message of this id is."""
    at = marks.find(id)
    while at >= 0 and (at - _OFFSET.size) % _KEPT_BYTES:
        at = marks.find(id, at + 1)
    return None if at < 0 else int(_OFFSET.unpack_from(marks, at - _OFFSET.size)[0])


def by_offset(marks: bytes) -> dict[int, bytes]:
    """All of a run."""
    whole = len(marks) - len(marks) % _KEPT_BYTES
    return {
        _OFFSET.unpack_from(marks, at)[0]: marks[at + _OFFSET.size : at + _KEPT_BYTES]
        for at in range(0, whole, _KEPT_BYTES)
    }
