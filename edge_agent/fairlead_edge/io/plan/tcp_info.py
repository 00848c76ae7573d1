"""What the kernel carried on one TCP connection, by its own count (Linux 4.19 and later).

Bytes of TCP's content, so TLS, its handshake and the frames of the WebSocket are all in it; what TCP sent again is
counted apart, and headers are packets times ``HEADER_BYTES``.
"""

from __future__ import annotations

import socket
import struct
import sys
from typing import Final

import msgspec

_SIZE: Final = 256
_RECEIVED: Final = struct.Struct("=Q")
_SENT: Final = struct.Struct("=QQ")
_SEGMENTS: Final = struct.Struct("=II")
_RECEIVED_AT: Final = 128
_SEGMENTS_AT: Final = 136
_SENT_AT: Final = 200
"""Places of tcpi_bytes_received, tcpi_segs_out and tcpi_segs_in, tcpi_bytes_sent and tcpi_bytes_retrans in ``struct
tcp_info``."""
HEADER_BYTES: Final = {socket.AF_INET: 20 + 32, socket.AF_INET6: 40 + 32}
"""IP, and TCP with its time stamps."""


class Carried(msgspec.Struct, frozen=True):
    """Bytes each way, those that TCP sent again, and those of the headers of all packets."""

    up: int = 0
    down: int = 0
    again: int = 0
    headers: int = 0

    @property
    def total(self) -> int:
        return self.up + self.down + self.again + self.headers

    def plus(self, other: Carried) -> Carried:
        return Carried(
            self.up + other.up, self.down + other.down, self.again + other.again, self.headers + other.headers
        )


def read(connection: socket.socket) -> Carried | None:
    """None: this system does not count it.  Raises ``OSError`` for a socket that is closed."""
    if sys.platform != "linux":
        return None
    found = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _SIZE)
    if len(found) < _SENT_AT + _SENT.size:
        return None
    sent, again = _SENT.unpack_from(found, _SENT_AT)
    (received,) = _RECEIVED.unpack_from(found, _RECEIVED_AT)
    packets = sum(_SEGMENTS.unpack_from(found, _SEGMENTS_AT))
    return Carried(
        sent - again, received, again, packets * HEADER_BYTES.get(connection.family, HEADER_BYTES[socket.AF_INET6])
    )
