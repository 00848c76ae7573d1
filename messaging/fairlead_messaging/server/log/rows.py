"""Values of the message and payload tables.

    message:  flags(1) [pointer(8)] [ttl(4)] payload | from(10) to(10)
    payload:  flags(1) [ttl(4)] payload

``pointer`` is the seed's column *t*, signed: negative means rolled back.  A *reference* has no payload
of its own: it stands for the payload rows of its pointer in from < position ≤ to, so that a message
stored later under the same pointer can never slip in before a reader's position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, cast

from fairlead_messaging.api.message_id import MessageId, timestamp_of

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
    """Many rows of one pointer; ``ttls`` is empty if none has its own time to live."""
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


# --- Messages that have no position yet.


class LoggedMessage(NamedTuple):
    """A payload and its own time to live in seconds; 0 means the topic's."""

    payload: bytes
    ttl_seconds: int = 0


Messages = Sequence[bytes | LoggedMessage]
"""The messages of a request; plain bytes have the topic's time to live, and need no object besides themselves."""


def columns(messages: Messages) -> tuple[Sequence[bytes], list[int]]:
    """(payloads, times to live in seconds); no times if no message has its own."""
    if all(kind is bytes for kind in set(map(type, messages))):
        return cast("Sequence[bytes]", messages), []
    whole = [message if isinstance(message, LoggedMessage) else LoggedMessage(message) for message in messages]
    ttls = [message.ttl_seconds for message in whole]
    return [message.payload for message in whole], ttls if any(ttls) else []


# --- The state of a row for a reader.
# Readers know only ``RowStates`` and not transactions; ``transactions.visibility`` implements it.


class RowState(Enum):
    """COMMITTED: show the row.  ABORTED: it will never be shown.  UNCOMMITTED: end the scan before it."""

    COMMITTED = 1
    ABORTED = 2
    UNCOMMITTED = 3


RowStates = Callable[[int], RowState]
"""The state of a row by its pointer, which is negative if the row was rolled back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncommitted:
    """Ids from ``message_id`` on may still change; ``pointer`` is None if only the search ended there."""

    message_id: MessageId
    pointer: int | None

    @property
    def since_ms(self) -> int:
        """When it was published, milliseconds since 1970."""
        return timestamp_of(self.message_id)
