"""The packets the agent sends, as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from fairlead_edge.mqtt import fields, properties, reasons
from fairlead_edge.mqtt.packets import LEVEL_5, PacketType
from fairlead_edge.mqtt.properties import Id
from fairlead_edge.mqtt.reasons import Code

PINGRESP: Final = bytes((PacketType.PINGRESP << 4, 0))
REASON_BYTES_MAX: Final = 1024
"""Of a sentence for the client's log; it ends there."""


def _packet(first: int, body: bytes) -> bytes:
    return bytes((first,)) + fields.length_field(len(body)) + body


def _reason(text: str) -> str | None:
    return text.encode(errors="replace")[:REASON_BYTES_MAX].decode(errors="ignore") or None


def connack(level: int, code: Code, *, session_present: bool = False, values: Iterable[tuple[Id, Any]] = ()) -> bytes:
    """``values``: properties for level 5."""
    if level != LEVEL_5:
        return _packet(PacketType.CONNACK << 4, bytes((session_present, reasons.connack_3(code))))
    return _packet(PacketType.CONNACK << 4, bytes((session_present, code)) + properties.write(values))


def puback(level: int, packet: int, code: Code = Code.SUCCESS, reason: str = "") -> bytes:
    if level != LEVEL_5 or code is Code.SUCCESS:
        return b"\x40\x02" + packet.to_bytes(2)
    tail = properties.write([(Id.REASON_STRING, _reason(reason))]) if reason else b""
    return _packet(PacketType.PUBACK << 4, packet.to_bytes(2) + bytes((code,)) + tail)


def suback(level: int, packet: int, codes: Sequence[int]) -> bytes:
    if level != LEVEL_5:
        return _packet(PacketType.SUBACK << 4, packet.to_bytes(2) + bytes(min(code, reasons.FAILURE) for code in codes))
    return _packet(PacketType.SUBACK << 4, packet.to_bytes(2) + b"\0" + bytes(codes))


def unsuback(level: int, packet: int, codes: Sequence[int]) -> bytes:
    if level != LEVEL_5:
        return _packet(PacketType.UNSUBACK << 4, packet.to_bytes(2))
    return _packet(PacketType.UNSUBACK << 4, packet.to_bytes(2) + b"\0" + bytes(codes))


def disconnect(level: int, code: Code, reason: str = "") -> bytes:
    """Nothing at level 4, where a server says goodbye by closing."""
    if level != LEVEL_5:
        return b""
    return _packet(PacketType.DISCONNECT << 4, bytes((code,)) + properties.write([(Id.REASON_STRING, _reason(reason))]))


def publish(
    level: int,
    topic: str,
    payload: bytes,
    *,
    qos: int = 0,
    packet: int = 0,
    dup: bool = False,
    retain: bool = False,
    values: Iterable[tuple[Id, Any]] = (),
    user: Iterable[tuple[str, str]] = (),
) -> bytes:
    head = fields.text_field(topic)
    if qos:
        head += packet.to_bytes(2)
    if level == LEVEL_5:
        head += properties.write(values, user)
    return _packet(PacketType.PUBLISH << 4 | dup << 3 | qos << 1 | retain, head + payload)
