"""A WebSocket that passes frames directly to a function: a quiet node needs no task, future or coroutine.

websockets' own connection hands messages to whoever awaits ``recv``.  With thousands of quiet nodes that is a task and
half a dozen coroutine frames each, and for every ack a future and a turn of the loop.  Here a message is handled where
it is decoded, and frames are written immediately: ``paused`` says whether there is room for more, ``on_room`` that this
changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from websockets.asyncio.server import Server, ServerConnection
from websockets.frames import DATA_OPCODES, CloseCode, Frame, Opcode
from websockets.protocol import Event, State
from websockets.server import ServerProtocol

WRITE_BYTES = 64 * 1024
"""Frames are combined up to about this size before they are written to the kernel or TLS: one record instead of
many."""
PART_SECONDS = 10.0
FRAGMENTS_MAX = 64
"""Fragments per message; our own ends send whole messages."""
_NORMAL_CODES = (CloseCode.NORMAL_CLOSURE, CloseCode.GOING_AWAY)


def _no_listener() -> None:
    """Used until there is a listener."""


def _ignore(message: bytes | str) -> None:
    """Ignore data that had arrived when the connection was closed."""


class LinkSocket(ServerConnection):
    """Set the three functions as soon as the upgrade is done.

    ``on_message`` receives bytes, or ``str`` for text (which the link does not use); ``on_room`` is called whenever
    ``paused`` changes, including in the middle of ``write_frames``; ``on_lost`` once, when the connection is over.
    ``on_part`` is called about every ``part_seconds`` while a message is arriving: on a slow link a single one can take
    minutes.
    """

    def __init__(self, protocol: ServerProtocol, server: Server, *, close_seconds: float) -> None:
        super().__init__(protocol, server, ping_interval=None, close_timeout=close_seconds)
        self.on_message: Callable[[bytes | str], None] | None = None
        self.on_lost: Callable[[], None] = _no_listener
        self.on_room: Callable[[], None] = _no_listener
        self.on_part: Callable[[], None] = _no_listener
        self.part_seconds = PART_SECONDS
        self._heard_at = self.loop.time()
        """When the last message was complete, or ``on_part`` was last called."""
        self._parts: list[Frame] = []
        self._ending: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        return self.protocol.state is State.OPEN and not self.transport.is_closing()

    @property
    def closed_normally(self) -> bool:
        """Whether the peer closed the connection cleanly."""
        return self.protocol.close_rcvd is not None and self.protocol.close_rcvd.code in _NORMAL_CODES

    def write_frames(self, frames: Sequence[bytes]) -> None:
        """Write binary messages in this order, without waiting; nothing is written once the connection is not open."""
        if not self.is_open:
            return
        size = 0
        for frame in frames:
            self.protocol.send_binary(frame)
            size += len(frame)
            if size >= WRITE_BYTES:
                self._flush()
                size = 0
        if size:
            self._flush()

    def _flush(self) -> None:
        self.transport.write(b"".join(self.protocol.data_to_send()))

    # ---- what asyncio and websockets call --------------------------------------------------------

    def process_event(self, event: Event) -> None:
        if self.request is None or self.on_message is None or not isinstance(event, Frame):
            super().process_event(event)
        elif event.opcode in DATA_OPCODES:
            self._parts.append(event)
            if len(self._parts) > FRAGMENTS_MAX:
                self._parts.clear()
                self.on_message = _ignore
                self.protocol.fail(CloseCode.POLICY_VIOLATION, f"more than {FRAGMENTS_MAX} fragments")
                self.send_data()
            elif event.fin:
                self._heard_at = self.loop.time()
                parts, self._parts = self._parts, []
                data = b"".join(part.data for part in parts)
                self.on_message(data if parts[0].opcode is Opcode.BINARY else data.decode(errors="replace"))

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.on_part is not _no_listener and (now := self.loop.time()) - self._heard_at >= self.part_seconds:
            self._heard_at = now
            self.on_part()
        if self._ending is None and self.request is not None and self.protocol.state is State.CLOSING:
            # The close frame was answered; a peer that keeps the connection open is not waited for.
            self._ending = self.loop.call_later(self.close_timeout or 0, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.on_room()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.on_room()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._ending is not None:
            self._ending.cancel()
        on_lost, self.on_lost, self.on_message, self.on_room = self.on_lost, _no_listener, None, _no_listener
        self.on_part = _no_listener
        on_lost()
