"""Cuts whole packets out of what arrives, in whatever pieces; what is too large is refused by its header alone."""

from __future__ import annotations

from typing import Final, NamedTuple

from fairlead_edge.mqtt.reasons import Code, MqttRefused

MORE: Final = 0x80
"""Bit of a length's byte: another one follows."""
LENGTH_BYTES_MAX: Final = 4
_FIRST: Final = 1


class PacketBytes(NamedTuple):
    """The first byte (kind and flags) and what follows the length."""

    first: int
    body: bytes


class PacketReader:
    """Of one connection.  ``bytes_max``: of a whole packet."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.wrong: MqttRefused | None = None
        """Set where the bytes are no packets any more; what came before is returned all the same."""
        self._rest = bytearray()
        self._needed = 0
        """So many bytes make the packet whole that has begun."""

    @property
    def waiting_bytes(self) -> int:
        """Of a packet that is not whole."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[PacketBytes]:
        """The packets that are whole now."""
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
        """Where the body begins (0: the length is not whole), and how long it is."""
        length = shift = 0
        for here in range(at, min(at + LENGTH_BYTES_MAX, len(data))):
            byte = data[here]
            length |= (byte & ~MORE) << shift
            if byte < MORE:
                if byte == 0 and shift:
                    raise MqttRefused(Code.MALFORMED_PACKET, "a length in more bytes than it needs")
                if here + 1 - at + _FIRST + length > self.bytes_max:
                    raise MqttRefused(Code.PACKET_TOO_LARGE, f"a packet may have {self.bytes_max} bytes")
                return here + 1, length
            shift += 7
        if shift == 7 * LENGTH_BYTES_MAX:
            raise MqttRefused(Code.MALFORMED_PACKET, "a length of more than four bytes")
        return 0, 0
