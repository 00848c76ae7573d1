"""Counts the bytes of the link's connections, including failed attempts.

The counts are the kernel's (``TCP_INFO``, Linux 4.19 and later): the payload of TCP, which includes TLS and WebSocket
framing; retransmissions separately; and headers, estimated as packets times ``HEADER_BYTES``.  The meter holds a
duplicate of the connection's descriptor, so that the last bytes are counted after the library has closed it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
from typing import Final, Protocol

import msgspec

_SIZE: Final = 256
_RECEIVED: Final = struct.Struct("=Q")
_SENT: Final = struct.Struct("=QQ")
_SEGMENTS: Final = struct.Struct("=II")
_RECEIVED_AT: Final = 128
_SEGMENTS_AT: Final = 136
_SENT_AT: Final = 200
"""Offsets of tcpi_bytes_received, tcpi_segs_out and tcpi_segs_in, tcpi_bytes_sent and tcpi_bytes_retrans in ``struct
tcp_info``."""
HEADER_BYTES: Final = {socket.AF_INET: 20 + 32, socket.AF_INET6: 40 + 32}
"""The headers of IP, and of TCP with timestamps."""


class Carried(msgspec.Struct, frozen=True):
    """Bytes sent and received, bytes retransmitted (``again``), and bytes of packet headers."""

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
    """The kernel's counts; None if this system has none.  Raises ``OSError`` for a closed socket."""
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


FRAME_BYTES: Final = 100
"""An estimate of the headers of a frame (WebSocket, TLS, TCP, IP) for systems whose kernel does not count."""


class FrameCounts(Protocol):
    """The link's own counts; ``Counter[str]`` is one."""

    def __getitem__(self, event: str) -> int: ...


class LineMeter:
    """Counts the bytes of one link."""

    def __init__(self) -> None:
        self._past = Carried()
        self._last = Carried()
        """Counts of the current connection."""
        self._copy: socket.socket | None = None
        self._frames: FrameCounts | None = None

    def without_kernel(self, frames: FrameCounts) -> None:
        """The counts to use on a system whose kernel does not count."""
        self._frames = frames

    def watch(self, connection: socket.socket) -> None:
        """Count a new connection, until ``end``."""
        self.end()
        with contextlib.suppress(OSError):
            self._copy = socket.socket(fileno=os.dup(connection.fileno()))

    def end(self) -> None:
        """The connection is over; take its final count."""
        self._refresh()
        self._past, self._last = self._past.plus(self._last), Carried()
        if self._copy is not None:
            self._copy.close()
            self._copy = None

    def carried(self) -> Carried:
        """The counts since the start."""
        self._refresh()
        return self._past.plus(self._last)

    def _refresh(self) -> None:
        if self._copy is None:
            return
        with contextlib.suppress(OSError):
            found = read(self._copy)
            self._last = self._by_frames() if found is None else found

    def _by_frames(self) -> Carried:
        if self._frames is None:
            return self._last
        up, down = self._frames["bytes_sent"], self._frames["bytes_received"]
        headers = FRAME_BYTES * (self._frames["frames_sent"] + self._frames["frames_received"])
        past = self._past
        return Carried(up - past.up, down - past.down, headers=headers - past.headers)
