"""The few kinds of fields packets are made of, read from a packet's body and written (MQTT 5 section 1.5)."""

from __future__ import annotations

from typing import Final

from fairlead_edge.mqtt.reasons import Code, MqttRefused
from fairlead_wire.validation import mqtt_text

TEXT_BYTES_MAX: Final = mqtt_text.TEXT_BYTES_MAX


class TooLong(ValueError):
    """A field has no place in a packet: two bytes say how long it is."""


def malformed(reason: str) -> MqttRefused:
    return MqttRefused(Code.MALFORMED_PACKET, reason)


class FieldReader:
    """Reads one field after the other.  Raises ``MqttRefused`` where there is not what there should be."""

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
                    raise malformed("a length in more bytes than it needs")
                return value
        raise malformed("a length of more than four bytes")

    def binary(self) -> bytes:
        return self.take(self.two())

    def text(self) -> str:
        return text(self.binary())

    def rest(self) -> bytes:
        found = self._body[self.at :]
        self.at = len(self._body)
        return found

    def end(self) -> None:
        """There must be nothing more."""
        if self.left:
            raise malformed(f"{self.left} bytes too many in the packet")


def text(content: bytes) -> str:
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
        raise TooLong(f"{len(content)} bytes where MQTT carries {TEXT_BYTES_MAX}")
    return len(content).to_bytes(2) + content


def text_field(value: str) -> bytes:
    """With U+FFFD for what a client could close its connection for.  Raises ``TooLong``."""
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
