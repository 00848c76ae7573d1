"""Values of the message and payload tables.

    message:  flags(1) [pointer(8)] [ttl(4)] payload | from(10) to(10)
    payload:  flags(1) [ttl(4)] payload

``pointer`` is the seed's column *t*, signed: negative means rolled back.  A *reference* has no payload
of its own: it stands for the payload rows of its pointer in from < position ≤ to, so that a message
stored later under the same pointer can never slip in before a reader's position.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

HAS_POINTER, HAS_TTL, IS_REFERENCE = 1, 2, 4


class MessageRow(NamedTuple):
    """A decoded message row; ``pointer`` 0 means published without a transaction, ``ttl`` 0 the topic's own."""

    pointer: int
    ttl_seconds: int
    is_reference: bool
    payload: bytes


def encode(payload: bytes, ttl_seconds: int = 0, pointer: int = 0, *, is_reference: bool = False) -> bytes:
    flags = (HAS_POINTER if pointer else 0) | (HAS_TTL if ttl_seconds else 0) | (IS_REFERENCE if is_reference else 0)
    if not flags:
        return b"\x00" + payload
    return b"".join(
        (
            flags.to_bytes(1, "big"),
            pointer.to_bytes(8, "big", signed=True) if pointer else b"",
            ttl_seconds.to_bytes(4, "big") if ttl_seconds else b"",
            payload,
        )
    )


def encode_all(payloads: Sequence[bytes], ttls: Sequence[int] = (), pointer: int = 0) -> list[bytes]:
    """Many rows of one pointer; ``ttls`` is empty when none has a time to live of its own."""
    if ttls:
        return [encode(payload, ttl, pointer) for payload, ttl in zip(payloads, ttls, strict=True)]
    head = encode(b"", pointer=pointer)
    return [head + payload for payload in payloads]


def decode(value: bytes) -> MessageRow:
    flags = value[0]
    start, pointer, ttl = 1, 0, 0
    if flags & HAS_POINTER:
        pointer = int.from_bytes(value[start : start + 8], "big", signed=True)
        start += 8
    if flags & HAS_TTL:
        ttl = int.from_bytes(value[start : start + 4], "big")
        start += 4
    return MessageRow(pointer, ttl, bool(flags & IS_REFERENCE), value[start:])


def rolled_back(value: bytes) -> bytes:
    """The same row with its pointer negative."""
    row = decode(value)
    return encode(row.payload, row.ttl_seconds, -abs(row.pointer), is_reference=row.is_reference)
