"""What a message is found by: its id and its author, 20 bytes.

    id, 16 bytes │ author, 4 bytes: digest of the module whose token published it, zero for any other program

Only an author gets answers; of messages without one, the holder of the agent's own token, or any program where modules
have no tokens.
"""

from __future__ import annotations

import binascii
import functools
import hashlib
import re
from collections.abc import Callable
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
"""Stands for an id that is none of ours; it is never found."""
_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_PREFIX: Final = b'{"id":"'
_ID_ENDS: Final = len(_PREFIX) + 2 * ID_BYTES


class _Signed(msgspec.Struct, rename="camel"):
    system_properties: dict[str, str | None] = {}


_signed = msgspec.json.Decoder(_Signed)


def id_of(text: str) -> bytes | None:
    """None for what no message is called."""
    found = bytes.fromhex(text) if _ID.fullmatch(text) else UNNAMED
    return None if found == UNNAMED else found


def is_reserved(text: str) -> bool:
    """Written as an id is, but of no message ever."""
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
    """Of a module whose token was shown; "" for any other program."""
    if not module:
        return NO_AUTHOR
    return _digest(ascii_case.folded(module))


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
