"""MQTT control packets: read from a client's frames, and written as bytes for the client.

Level 4 is MQTT 3.1.1, level 5 is MQTT 5.  ``read`` checks everything that a single packet shows; ``session`` checks
what
depends on earlier packets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, Final

import msgspec

from fairlead_edge.mqtt import codec, reasons
from fairlead_edge.mqtt.codec import FieldReader, Id, PacketBytes, PacketProperties, malformed
from fairlead_edge.mqtt.limits import FILTERS_MAX
from fairlead_edge.mqtt.reasons import Code, MqttRefused

LEVEL_3: Final = 4
"""The protocol name of MQTT 3.1.1 in a CONNECT."""
LEVEL_5: Final = 5


class PacketType(IntEnum):
    """The upper half of a packet's first byte."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


_FLAGS: Final = {PacketType.SUBSCRIBE: 2, PacketType.UNSUBSCRIBE: 2, PacketType.PUBREL: 2}
"""The required flags (lower half of the first byte); 0 for all other types except PUBLISH."""


class PublishPacket(msgspec.Struct, frozen=True, gc=False):
    """A message.  ``packet`` is its packet identifier, 0 with QoS 0."""

    topic: str
    payload: bytes
    qos: int = 0
    packet: int = 0
    dup: bool = False
    retain: bool = False
    properties: PacketProperties = codec.NO_PROPERTIES


class Will(msgspec.Struct, frozen=True):
    """What is published for a client that ends without DISCONNECT."""

    message: PublishPacket
    delay_seconds: int = 0


class Connect(msgspec.Struct, frozen=True, kw_only=True):
    """``level`` is 4 or 5 here; other levels raise ``UnknownLevel``."""

    level: int
    client_id: str
    clean: bool
    keep_alive: int
    will: Will | None = None
    user_name: str | None = None
    password: bytes | None = None
    properties: PacketProperties = codec.NO_PROPERTIES


class Puback(msgspec.Struct, frozen=True):
    """The client acknowledges a message; a code of 0x80 or more rejects it."""

    packet: int
    code: int = 0


class Filter(msgspec.Struct, frozen=True):
    """One topic filter of a SUBSCRIBE, with its options."""

    text: str
    qos: int


class Subscribe(msgspec.Struct, frozen=True):
    packet: int
    filters: tuple[Filter, ...]


class Unsubscribe(msgspec.Struct, frozen=True):
    packet: int
    filters: tuple[str, ...]


class Pingreq(msgspec.Struct, frozen=True):
    pass


class Disconnect(msgspec.Struct, frozen=True):
    code: int = 0
    properties: PacketProperties = codec.NO_PROPERTIES


Packet = Connect | PublishPacket | Puback | Subscribe | Unsubscribe | Pingreq | Disconnect


class UnknownLevel(MqttRefused):
    """A CONNECT of another protocol version; the answer depends on the level."""

    def __init__(self, level: int) -> None:
        super().__init__(Code.UNSUPPORTED_PROTOCOL_VERSION, f"protocol level {level}; supported are 4 (3.1.1) and 5")
        self.level = level


def read(frame: PacketBytes, level: int) -> Packet:
    """Read a packet.  ``level`` is that of the connection's CONNECT, 0 before it.  Raises ``MqttRefused``."""
    if frame.first >> 4 == PacketType.PUBLISH:
        return _publish(frame, level)
    try:
        kind = PacketType(frame.first >> 4)
    except ValueError:
        raise malformed("there is no packet of type 0") from None
    if frame.first & 0x0F != _FLAGS.get(kind, 0):
        raise malformed(f"the flags of {kind.name} are {frame.first & 0x0F:#x}")
    cursor = FieldReader(frame.body)
    if kind is PacketType.CONNECT:
        return _connect(cursor)
    if kind is PacketType.PUBACK:
        return _puback(cursor, level)
    if kind is PacketType.SUBSCRIBE:
        return _subscribe(cursor, level)
    if kind is PacketType.UNSUBSCRIBE:
        return _unsubscribe(cursor, level)
    if kind is PacketType.PINGREQ:
        cursor.end()
        return Pingreq()
    if kind is PacketType.DISCONNECT:
        return _disconnect(cursor, level)
    if kind in (PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP):
        raise MqttRefused(Code.PROTOCOL_ERROR, f"{kind.name} belongs to QoS 2, and nothing here was ever sent with it")
    raise MqttRefused(Code.PROTOCOL_ERROR, f"{kind.name} is never sent by a client")


def _publish(frame: PacketBytes, level: int) -> PublishPacket:
    first, body = frame
    qos = first >> 1 & 3
    if qos == 3:
        raise malformed("there is no QoS 3")
    if len(body) < 2:
        raise malformed("the packet ends within a field")
    at = 2 + (body[0] << 8 | body[1])
    if at + (2 if qos else 0) > len(body):
        raise malformed("the packet ends within a field")
    topic = codec.utf8_text(body[2:at])
    packet = 0
    if qos:
        packet = body[at] << 8 | body[at + 1]
        at += 2
        if packet == 0:
            raise MqttRefused(Code.PROTOCOL_ERROR, "a packet identifier of 0")
    elif first & 8:
        raise malformed("DUP with QoS 0")
    found = codec.NO_PROPERTIES
    if level == LEVEL_5:
        cursor = FieldReader(body, at)
        found = codec.read_properties(cursor, codec.PUBLISH)
        at = cursor.at
    return PublishPacket(topic, body[at:], qos, packet, bool(first & 8), bool(first & 1), found)


def _connect(cursor: FieldReader) -> Connect:
    name, level = cursor.text(), cursor.byte()
    if (name, level) == ("MQIsdp", 3) or (name == "MQTT" and level not in (LEVEL_3, LEVEL_5)):
        raise UnknownLevel(level)
    if name != "MQTT":
        raise MqttRefused(Code.UNSUPPORTED_PROTOCOL_VERSION, "this is not MQTT")
    flags = cursor.byte()
    has_name, has_password = bool(flags & 0x80), bool(flags & 0x40)
    will_qos, has_will, will_retain = flags >> 3 & 3, bool(flags & 4), bool(flags & 0x20)
    if flags & 1 or will_qos == 3 or (not has_will and (will_qos or will_retain)):
        raise malformed(f"the flags of CONNECT are {flags:#04x}")
    if level == LEVEL_3 and has_password and not has_name:
        raise malformed("a password without a user name, which 3.1.1 does not allow")
    keep_alive = cursor.two()
    found = codec.read_properties(cursor, codec.CONNECT) if level == LEVEL_5 else codec.NO_PROPERTIES
    client_id = cursor.text()
    will = _will(cursor, level, will_qos, will_retain) if has_will else None
    connect = Connect(
        level=level,
        client_id=client_id,
        clean=bool(flags & 2),
        keep_alive=keep_alive,
        will=will,
        user_name=cursor.text() if has_name else None,
        password=cursor.binary() if has_password else None,
        properties=found,
    )
    cursor.end()
    return connect


def _will(cursor: FieldReader, level: int, qos: int, retain: bool) -> Will:
    found = codec.read_properties(cursor, codec.WILL) if level == LEVEL_5 else codec.NO_PROPERTIES
    topic, payload = cursor.text(), cursor.binary()
    delay = found.get(codec.Id.WILL_DELAY_INTERVAL, 0)
    return Will(PublishPacket(topic, payload, qos, 0, False, retain, found), delay)


def _packet_identifier(cursor: FieldReader) -> int:
    packet = cursor.two()
    if packet == 0:
        raise MqttRefused(Code.PROTOCOL_ERROR, "a packet identifier of 0")
    return packet


def _puback(cursor: FieldReader, level: int) -> Puback:
    packet = _packet_identifier(cursor)
    code = 0
    if level == LEVEL_5 and cursor.left:
        code = cursor.byte()
        if cursor.left:
            codec.read_properties(cursor, codec.ACKNOWLEDGEMENT)
    cursor.end()
    return Puback(packet, code)


def _subscribe(cursor: FieldReader, level: int) -> Subscribe:
    packet = _packet_identifier(cursor)
    if level == LEVEL_5:
        found = codec.read_properties(cursor, codec.SUBSCRIBE)
        if found.values:
            raise MqttRefused(Code.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED, "subscription identifiers are not supported")
    filters: list[Filter] = []
    while cursor.left:
        text, options = cursor.text(), cursor.byte()
        if options & 3 == 3 or options & (0xC0 if level == LEVEL_5 else 0xFC) or options & 0x30 == 0x30:
            raise malformed(f"the options of a subscription are {options:#04x}")
        filters.append(Filter(text, options & 3))
        _count(len(filters))
    if not filters:
        raise MqttRefused(Code.PROTOCOL_ERROR, "a SUBSCRIBE without a topic filter")
    return Subscribe(packet, tuple(filters))


def _unsubscribe(cursor: FieldReader, level: int) -> Unsubscribe:
    packet = _packet_identifier(cursor)
    if level == LEVEL_5:
        codec.read_properties(cursor, codec.UNSUBSCRIBE)
    filters: list[str] = []
    while cursor.left:
        filters.append(cursor.text())
        _count(len(filters))
    if not filters:
        raise MqttRefused(Code.PROTOCOL_ERROR, "an UNSUBSCRIBE without a topic filter")
    return Unsubscribe(packet, tuple(filters))


def _count(filters: int) -> None:
    if filters > FILTERS_MAX:
        raise MqttRefused(Code.QUOTA_EXCEEDED, f"at most {FILTERS_MAX} topic filters in one packet")


def _disconnect(cursor: FieldReader, level: int) -> Disconnect:
    if level != LEVEL_5 or not cursor.left:
        cursor.end()
        return Disconnect()
    code = cursor.byte()
    found = codec.read_properties(cursor, codec.DISCONNECT) if cursor.left else codec.NO_PROPERTIES
    cursor.end()
    return Disconnect(code, found)


# ---- written ---------------------------------------------------------------------------------------------------------

PINGRESP: Final = bytes((PacketType.PINGRESP << 4, 0))
REASON_BYTES_MAX: Final = 1024
"""Reason strings are cut at this length."""


def _packet(first: int, body: bytes) -> bytes:
    return bytes((first,)) + codec.length_field(len(body)) + body


def _reason(text: str) -> str | None:
    return text.encode(errors="replace")[:REASON_BYTES_MAX].decode(errors="ignore") or None


def connack(level: int, code: Code, *, session_present: bool = False, values: Iterable[tuple[Id, Any]] = ()) -> bytes:
    """``values``: properties for level 5."""
    if level != LEVEL_5:
        return _packet(PacketType.CONNACK << 4, bytes((session_present, reasons.connack_3(code))))
    return _packet(PacketType.CONNACK << 4, bytes((session_present, code)) + codec.write_properties(values))


def puback(level: int, packet: int, code: Code = Code.SUCCESS, reason: str = "") -> bytes:
    if level != LEVEL_5 or code is Code.SUCCESS:
        return b"\x40\x02" + packet.to_bytes(2)
    tail = codec.write_properties([(Id.REASON_STRING, _reason(reason))]) if reason else b""
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
    """Empty at level 4, where a server just closes the connection."""
    if level != LEVEL_5:
        return b""
    return _packet(
        PacketType.DISCONNECT << 4, bytes((code,)) + codec.write_properties([(Id.REASON_STRING, _reason(reason))])
    )


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
    head = codec.text_field(topic)
    if qos:
        head += packet.to_bytes(2)
    if level == LEVEL_5:
        head += codec.write_properties(values, user)
    return _packet(PacketType.PUBLISH << 4 | dup << 3 | qos << 1 | retain, head + payload)
