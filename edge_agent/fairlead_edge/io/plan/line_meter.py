"""Counts what the link's connections carry, one after the other, those that came to nothing, too.

A copy of each connection's descriptor is held while it lasts, so that its last bytes are counted when the library has
closed it already.
"""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Final, Protocol

from fairlead_edge.io.plan import tcp_info
from fairlead_edge.io.plan.tcp_info import Carried

FRAME_BYTES: Final = 100
"""Added to each frame where the kernel does not count: headers of WebSocket, TLS, TCP and IP."""


class FrameCounts(Protocol):
    """The link's own counts; ``Counter[str]`` is one."""

    def __getitem__(self, event: str) -> int: ...


class LineMeter:
    """One per link."""

    def __init__(self) -> None:
        self._past = Carried()
        self._last = Carried()
        """Of the connection there is."""
        self._copy: socket.socket | None = None
        self._frames: FrameCounts | None = None

    def without_kernel(self, frames: FrameCounts) -> None:
        """What to go by on a system whose kernel does not count."""
        self._frames = frames

    def watch(self, connection: socket.socket) -> None:
        """A connection begins.  Close its copy with ``end``."""
        self.end()
        with contextlib.suppress(OSError):
            self._copy = socket.socket(fileno=os.dup(connection.fileno()))

    def end(self) -> None:
        """It is over."""
        self._look()
        self._past, self._last = self._past.plus(self._last), Carried()
        if self._copy is not None:
            self._copy.close()
            self._copy = None

    def carried(self) -> Carried:
        """Since the start."""
        self._look()
        return self._past.plus(self._last)

    def _look(self) -> None:
        if self._copy is None:
            return
        with contextlib.suppress(OSError):
            found = tcp_info.read(self._copy)
            self._last = self._by_frames() if found is None else found

    def _by_frames(self) -> Carried:
        if self._frames is None:
            return self._last
        up, down = self._frames["bytes_sent"], self._frames["bytes_received"]
        headers = FRAME_BYTES * (self._frames["frames_sent"] + self._frames["frames_received"])
        past = self._past
        return Carried(up - past.up, down - past.down, headers=headers - past.headers)
