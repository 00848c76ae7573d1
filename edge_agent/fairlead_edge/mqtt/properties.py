"""Properties of MQTT 5 (section 2.2.2.2): which there are, where each may stand, how each is read and written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from fairlead_edge.mqtt import fields
from fairlead_edge.mqtt.fields import FieldReader
from fairlead_edge.mqtt.reasons import Code, MqttRefused

PROPERTIES_MAX: Final = 1000
"""In one packet; most of them can only be user properties."""


class Id(IntEnum):
    """A property's identifier."""

    PAYLOAD_FORMAT_INDICATOR = 0x01
    MESSAGE_EXPIRY_INTERVAL = 0x02
    CONTENT_TYPE = 0x03
    RESPONSE_TOPIC = 0x08
    CORRELATION_DATA = 0x09
    SUBSCRIPTION_IDENTIFIER = 0x0B
    SESSION_EXPIRY_INTERVAL = 0x11
    ASSIGNED_CLIENT_IDENTIFIER = 0x12
    SERVER_KEEP_ALIVE = 0x13
    AUTHENTICATION_METHOD = 0x15
    AUTHENTICATION_DATA = 0x16
    REQUEST_PROBLEM_INFORMATION = 0x17
    WILL_DELAY_INTERVAL = 0x18
    REQUEST_RESPONSE_INFORMATION = 0x19
    RESPONSE_INFORMATION = 0x1A
    SERVER_REFERENCE = 0x1C
    REASON_STRING = 0x1F
    RECEIVE_MAXIMUM = 0x21
    TOPIC_ALIAS_MAXIMUM = 0x22
    TOPIC_ALIAS = 0x23
    MAXIMUM_QOS = 0x24
    RETAIN_AVAILABLE = 0x25
    USER_PROPERTY = 0x26
    MAXIMUM_PACKET_SIZE = 0x27
    WILDCARD_SUBSCRIPTION_AVAILABLE = 0x28
    SUBSCRIPTION_IDENTIFIER_AVAILABLE = 0x29
    SHARED_SUBSCRIPTION_AVAILABLE = 0x2A


class _Kind(NamedTuple):
    read: Callable[[FieldReader], Any]
    write: Callable[[Any], bytes]


_BYTE: Final = _Kind(FieldReader.byte, lambda value: int(value).to_bytes(1))
_TWO: Final = _Kind(FieldReader.two, lambda value: int(value).to_bytes(2))
_FOUR: Final = _Kind(FieldReader.four, lambda value: int(value).to_bytes(4))
_LENGTH: Final = _Kind(FieldReader.length, fields.length_field)
_BINARY: Final = _Kind(FieldReader.binary, fields.binary_field)
_TEXT: Final = _Kind(FieldReader.text, fields.text_field)

_KINDS: Final[Mapping[Id, _Kind]] = {
    Id.PAYLOAD_FORMAT_INDICATOR: _BYTE,
    Id.MESSAGE_EXPIRY_INTERVAL: _FOUR,
    Id.CONTENT_TYPE: _TEXT,
    Id.RESPONSE_TOPIC: _TEXT,
    Id.CORRELATION_DATA: _BINARY,
    Id.SUBSCRIPTION_IDENTIFIER: _LENGTH,
    Id.SESSION_EXPIRY_INTERVAL: _FOUR,
    Id.ASSIGNED_CLIENT_IDENTIFIER: _TEXT,
    Id.SERVER_KEEP_ALIVE: _TWO,
    Id.AUTHENTICATION_METHOD: _TEXT,
    Id.AUTHENTICATION_DATA: _BINARY,
    Id.REQUEST_PROBLEM_INFORMATION: _BYTE,
    Id.WILL_DELAY_INTERVAL: _FOUR,
    Id.REQUEST_RESPONSE_INFORMATION: _BYTE,
    Id.RESPONSE_INFORMATION: _TEXT,
    Id.SERVER_REFERENCE: _TEXT,
    Id.REASON_STRING: _TEXT,
    Id.RECEIVE_MAXIMUM: _TWO,
    Id.TOPIC_ALIAS_MAXIMUM: _TWO,
    Id.TOPIC_ALIAS: _TWO,
    Id.MAXIMUM_QOS: _BYTE,
    Id.RETAIN_AVAILABLE: _BYTE,
    Id.MAXIMUM_PACKET_SIZE: _FOUR,
    Id.WILDCARD_SUBSCRIPTION_AVAILABLE: _BYTE,
    Id.SUBSCRIPTION_IDENTIFIER_AVAILABLE: _BYTE,
    Id.SHARED_SUBSCRIPTION_AVAILABLE: _BYTE,
}

CONNECT: Final = frozenset(
    {
        Id.SESSION_EXPIRY_INTERVAL,
        Id.AUTHENTICATION_METHOD,
        Id.AUTHENTICATION_DATA,
        Id.REQUEST_PROBLEM_INFORMATION,
        Id.REQUEST_RESPONSE_INFORMATION,
        Id.RECEIVE_MAXIMUM,
        Id.TOPIC_ALIAS_MAXIMUM,
        Id.MAXIMUM_PACKET_SIZE,
    }
)
_MESSAGE: Final = frozenset(
    {
        Id.PAYLOAD_FORMAT_INDICATOR,
        Id.MESSAGE_EXPIRY_INTERVAL,
        Id.CONTENT_TYPE,
        Id.RESPONSE_TOPIC,
        Id.CORRELATION_DATA,
    }
)
WILL: Final = _MESSAGE | {Id.WILL_DELAY_INTERVAL}
PUBLISH: Final = _MESSAGE | {Id.TOPIC_ALIAS, Id.SUBSCRIPTION_IDENTIFIER}
ACKNOWLEDGEMENT: Final = frozenset({Id.REASON_STRING})
SUBSCRIBE: Final = frozenset({Id.SUBSCRIPTION_IDENTIFIER})
UNSUBSCRIBE: Final[frozenset[Id]] = frozenset()
DISCONNECT: Final = frozenset({Id.SESSION_EXPIRY_INTERVAL, Id.REASON_STRING, Id.SERVER_REFERENCE})

_FLAGS: Final = frozenset(
    {Id.PAYLOAD_FORMAT_INDICATOR, Id.REQUEST_PROBLEM_INFORMATION, Id.REQUEST_RESPONSE_INFORMATION}
)
_NOT_ZERO: Final = frozenset({Id.RECEIVE_MAXIMUM, Id.MAXIMUM_PACKET_SIZE, Id.SUBSCRIPTION_IDENTIFIER})


class PacketProperties(NamedTuple):
    """What a packet carried; ``user`` in the order it came, a name perhaps more than once."""

    values: Mapping[Id, Any]
    user: tuple[tuple[str, str], ...]

    def get(self, id: Id, default: Any = None) -> Any:
        return self.values.get(id, default)


NONE: Final = PacketProperties({}, ())


def read(cursor: FieldReader, allowed: frozenset[Id]) -> PacketProperties:
    """Raises ``MqttRefused``: a property that is unknown, misplaced, twice there or out of its range."""
    size = cursor.length()
    if size == 0:
        return NONE
    inner = FieldReader(cursor.take(size))
    values: dict[Id, Any] = {}
    user: list[tuple[str, str]] = []
    while inner.left:
        number = inner.length()
        if number == Id.USER_PROPERTY:
            if len(user) == PROPERTIES_MAX:
                raise MqttRefused(Code.PROTOCOL_ERROR, f"more than {PROPERTIES_MAX} user properties")
            user.append((inner.text(), inner.text()))
            continue
        try:
            id = Id(number)
        except ValueError:
            raise fields.malformed(f"there is no property {number:#04x}") from None
        if id not in allowed:
            raise MqttRefused(Code.PROTOCOL_ERROR, f"the property {id.name.lower()} has no place in this packet")
        if id in values:
            raise MqttRefused(Code.PROTOCOL_ERROR, f"the property {id.name.lower()} stands there twice")
        value = values[id] = _KINDS[id].read(inner)
        if (id in _FLAGS and value > 1) or (id in _NOT_ZERO and value == 0):
            raise MqttRefused(Code.PROTOCOL_ERROR, f"the property {id.name.lower()} may not be {value}")
    return PacketProperties(values, tuple(user))


def write(values: Iterable[tuple[Id, Any]], user: Iterable[tuple[str, str]] = ()) -> bytes:
    """With their length in front; a value of None is left out."""
    found = b"".join(bytes((id,)) + _KINDS[id].write(value) for id, value in values if value is not None)
    found += b"".join(
        bytes((Id.USER_PROPERTY,)) + fields.text_field(name) + fields.text_field(value) for name, value in user
    )
    return fields.length_field(len(found)) + found
