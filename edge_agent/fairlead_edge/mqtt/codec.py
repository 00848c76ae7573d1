"""The encoding below packets: data types (MQTT 5 section 1.5), framing, and properties (section 2.2.2.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from fairlead_edge.mqtt.reasons import Code, MqttRefused
from fairlead_wire.validation import mqtt_text

TEXT_BYTES_MAX: Final = mqtt_text.TEXT_BYTES_MAX


class TooLong(ValueError):
    """A field is too long for its two-byte length."""


def malformed(reason: str) -> MqttRefused:
    return MqttRefused(Code.MALFORMED_PACKET, reason)


class FieldReader:
    """Reads the fields of a packet in order.  Raises ``MqttRefused`` if the bytes do not match."""

    def __init__(self, body: bytes, at: int = 0) -> None:
        self._body = body
        self.at = at

    @property
    def left(self) -> int:
        return len(self._body) - self.at

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self._body):
            raise malformed("the packet ends within a field")
        found = self._body[self.at : end]
        self.at = end
        return found

    def byte(self) -> int:
        return self.take(1)[0]

    def two(self) -> int:
        return int.from_bytes(self.take(2))

    def four(self) -> int:
        return int.from_bytes(self.take(4))

    def length(self) -> int:
        """A variable byte integer."""
        value = 0
        for shift in (0, 7, 14, 21):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if byte == 0 and shift:
                    raise malformed("a length with more bytes than needed")
                return value
        raise malformed("a length of more than four bytes")

    def binary(self) -> bytes:
        return self.take(self.two())

    def text(self) -> str:
        return utf8_text(self.binary())

    def rest(self) -> bytes:
        found = self._body[self.at :]
        self.at = len(self._body)
        return found

    def end(self) -> None:
        """Raises ``MqttRefused`` if anything is left."""
        if self.left:
            raise malformed(f"{self.left} trailing bytes in the packet")


def utf8_text(content: bytes) -> str:
    """UTF-8 without U+0000 (section 1.5.4)."""
    try:
        found = content.decode()
    except UnicodeDecodeError:
        raise malformed("a text is not UTF-8") from None
    if mqtt_text.is_forbidden(found):
        raise malformed("a text holds U+0000")
    return found


def binary_field(content: bytes) -> bytes:
    """Raises ``TooLong``."""
    if len(content) > TEXT_BYTES_MAX:
        raise TooLong(f"{len(content)} bytes, and MQTT allows {TEXT_BYTES_MAX}")
    return len(content).to_bytes(2) + content


def text_field(value: str) -> bytes:
    """Encode text, with U+FFFD for characters that may make a client close its connection.  Raises ``TooLong``."""
    return binary_field(mqtt_text.safe(value).encode())


def length_field(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    found = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        found.append(low | 0x80 if value else low)
        if not value:
            return bytes(found)


# ---- frames ----------------------------------------------------------------------------------------------------------

MORE: Final = 0x80
"""The bit in a byte of a length that says that another byte follows."""
LENGTH_BYTES_MAX: Final = 4
_FIRST: Final = 1


class PacketBytes(NamedTuple):
    """The first byte of a packet (type and flags), and what follows its length."""

    first: int
    body: bytes


class PacketReader:
    """Splits the bytes of one connection into packets, however they arrive.

    ``bytes_max`` limits a whole packet; a larger one is refused as soon as its header arrives.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.wrong: MqttRefused | None = None
        """Set once the bytes cannot be split into packets; earlier packets are still returned."""
        self._rest = bytearray()
        self._needed = 0
        """How many bytes complete the packet that has begun."""

    @property
    def waiting_bytes(self) -> int:
        """Bytes of an incomplete packet."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[PacketBytes]:
        """Add bytes; returns the packets that are now complete."""
        if self.wrong is not None:
            return []
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return []
            data = bytes(self._rest)
        found: list[PacketBytes] = []
        at, size = 0, len(data)
        self._needed = 0
        while size - at >= 1 + _FIRST:
            try:
                start, length = self._length(data, at + _FIRST)
            except MqttRefused as refused:
                self.wrong = refused
                self._rest.clear()
                return found
            if start == 0 or start + length > size:
                self._needed = start + length - at if start else 0
                break
            found.append(PacketBytes(data[at], data[start : start + length]))
            at = start + length
        self._rest = bytearray(data[at:])
        return found

    def _length(self, data: bytes, at: int) -> tuple[int, int]:
        """Where the body begins (0 if the length is incomplete), and how long it is."""
        length = shift = 0
        for here in range(at, min(at + LENGTH_BYTES_MAX, len(data))):
            byte = data[here]
            length |= (byte & ~MORE) << shift
            if byte < MORE:
                if byte == 0 and shift:
                    raise MqttRefused(Code.MALFORMED_PACKET, "a length with more bytes than needed")
                if here + 1 - at + _FIRST + length > self.bytes_max:
                    raise MqttRefused(Code.PACKET_TOO_LARGE, f"a packet may have {self.bytes_max} bytes")
                return here + 1, length
            shift += 7
        if shift == 7 * LENGTH_BYTES_MAX:
            raise MqttRefused(Code.MALFORMED_PACKET, "a length of more than four bytes")
        return 0, 0


# ---- properties ------------------------------------------------------------------------------------------------------

PROPERTIES_MAX: Final = 1000
"""The most properties in one packet; most of them can only be user properties."""


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
_LENGTH: Final = _Kind(FieldReader.length, length_field)
_BINARY: Final = _Kind(FieldReader.binary, binary_field)
_TEXT: Final = _Kind(FieldReader.text, text_field)

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
    """The properties of a packet; ``user`` in order of arrival, where a name may repeat."""

    values: Mapping[Id, Any]
    user: tuple[tuple[str, str], ...]

    def get(self, id: Id, default: Any = None) -> Any:
        return self.values.get(id, default)


NO_PROPERTIES: Final = PacketProperties({}, ())


def read_properties(cursor: FieldReader, allowed: frozenset[Id]) -> PacketProperties:
    """Raises ``MqttRefused`` for a property that is unknown, misplaced, repeated or out of range."""
    size = cursor.length()
    if size == 0:
        return NO_PROPERTIES
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
            raise malformed(f"there is no property {number:#04x}") from None
        if id not in allowed:
            raise MqttRefused(Code.PROTOCOL_ERROR, f"the property {id.name.lower()} is not allowed in this packet")
        if id in values:
            raise MqttRefused(Code.PROTOCOL_ERROR, f"the property {id.name.lower()} appears twice")
        value = values[id] = _KINDS[id].read(inner)
        if (id in _FLAGS and value > 1) or (id in _NOT_ZERO and value == 0):
            raise MqttRefused(Code.PROTOCOL_ERROR, f"the property {id.name.lower()} may not be {value}")
    return PacketProperties(values, tuple(user))


def write_properties(values: Iterable[tuple[Id, Any]], user: Iterable[tuple[str, str]] = ()) -> bytes:
    """Encode properties, prefixed with their length; values of None are omitted."""
    found = b"".join(bytes((id,)) + _KINDS[id].write(value) for id, value in values if value is not None)
    found += b"".join(bytes((Id.USER_PROPERTY,)) + text_field(name) + text_field(value) for name, value in user)
    return length_field(len(found)) + found
