"""Message ids: 20 bytes whose byte order is the order of delivery.

    publish timestamp (8) · sequence (2) · payload write timestamp (8) · payload sequence (2)

Big endian.  The first ten bytes are the *position* of a row in the message table; the last ten are
zero unless the payload lies in the payload table (seed: transactional messaging, "Message Identifier").
"""

from __future__ import annotations

from typing import NamedTuple, NewType

from fairlead_messaging.api.errors import Refused

MessageId = NewType("MessageId", bytes)
"""``ID_BYTES`` bytes."""
PositionBytes = NewType("PositionBytes", bytes)
"""An encoded ``Position``: ``POSITION_BYTES`` bytes, half of an id and the end of a row's key."""

ID_BYTES = 20
POSITION_BYTES = 10
SEQUENCE_MAX = 0xFFFF
TIMESTAMP_MAX = 2**63 - 1
NO_PAYLOAD = PositionBytes(bytes(POSITION_BYTES))
"""The payload half of the id if the payload is in the message row itself."""

FIRST = MessageId(bytes(ID_BYTES))
"""Below every message: reading after it reads everything."""

LAST = MessageId(b"\xff" * ID_BYTES)
"""Above every message."""


class Position(NamedTuple):
    """The position of a row: publish time in milliseconds, and the sequence within that millisecond."""

    timestamp: int
    sequence: int

    def encode(self) -> PositionBytes:
        return PositionBytes(self.timestamp.to_bytes(8, "big") + self.sequence.to_bytes(2, "big"))


def decode_position(raw: bytes) -> Position:
    return Position(int.from_bytes(raw[:8], "big"), int.from_bytes(raw[8:10], "big"))


def id_of(position: bytes, payload_position: bytes = NO_PAYLOAD) -> MessageId:
    """The id of the message row at a position; ``payload_position``: of the payload row that it refers to."""
    return MessageId(position + payload_position)


def position_of(message_id: MessageId) -> PositionBytes:
    """The position of the message row."""
    return PositionBytes(message_id[:POSITION_BYTES])


def last_of(position: bytes) -> MessageId:
    """The greatest id of the row at this position: reading after it begins with the next row."""
    return MessageId(position + LAST[POSITION_BYTES:])


def timestamp_of(message_id: bytes) -> int:
    """Publish time in milliseconds."""
    return int.from_bytes(message_id[:8], "big")


def before(message_id: MessageId) -> MessageId:
    """The greatest id below this one, which as an exclusive start includes this one."""
    value = int.from_bytes(message_id, "big")
    return MessageId((value - 1).to_bytes(ID_BYTES, "big")) if value else FIRST


def before_time(timestamp_ms: int) -> MessageId:
    """The exclusive start of messages published at this time or later."""
    return before(id_of(Position(min(timestamp_ms, TIMESTAMP_MAX), 0).encode()))


def parse_hex(text: str) -> MessageId:
    """An id from its hex form.

    Raises: Refused when it is not 40 hex digits.
    """
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if len(raw) != ID_BYTES or len(text) != 2 * ID_BYTES:
        raise Refused(f"a message id is {2 * ID_BYTES} hex digits ({ID_BYTES} bytes)", code="bad_message_id")
    return MessageId(raw)
