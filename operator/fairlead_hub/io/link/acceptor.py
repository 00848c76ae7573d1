"""The hub's listening socket, which accepts connections only as fast as sessions can be opened, and its connections.

    backlog ─accept─▶ Openings.begin ─▶ TLS ▸ upgrade ▸ hello ─▶ opened() ─▶ the caller's ``LinkSocket``
                                             └─ left, refused, deadline ─▶ closed, counted by reason

The kernel's queue holds waiting connections at no cost to us, and those that closed meanwhile are noticed before any
work is done.  ``TCP_DEFER_ACCEPT`` keeps out connections that have not sent anything yet.

A ``LinkSocket`` passes frames directly to a function: a quiet node needs no task, future or coroutine.  websockets' own
connection hands messages to whoever awaits ``recv``.  With thousands of quiet nodes that is a task and half a dozen
coroutine frames each, and for every ack a future and a turn of the loop.  Here a message is handled where it is
decoded, and frames are written immediately: ``paused`` says whether there is room for more, ``on_room`` that this
changed.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import select
import socket
import ssl
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from websockets.asyncio.server import Server, ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import DATA_OPCODES, CloseCode, Frame, Opcode
from websockets.protocol import Event, State
from websockets.server import ServerProtocol

from fairlead_hub.delivery.admission import SLOT_SECONDS, HandshakeLimiter
from fairlead_wire.io import handshake, logs
from fairlead_wire.link import codec
from fairlead_wire.log_limiter import LogLimiter

BACKLOG: Final = 4096
"""Connections queued in the kernel (if its ``somaxconn`` allows as many)."""
CLOSE_SECONDS: Final = 2.0
EXHAUSTED_SECONDS: Final = 1.0
"""Pause when the process has run out of file descriptors."""
TOLD_SECONDS: Final = 60.0
"""Interval between log lines about failed openings from one address for one reason."""
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_log = logs.get("hub.acceptor")


class _Opening:
    """A connection that is not a session yet."""

    __slots__ = ("deadline", "key", "over", "peer", "socket", "task")

    def __init__(self, key: int, peer: str) -> None:
        self.key, self.peer, self.over = key, peer, False
        self.deadline: asyncio.TimerHandle | None = None
        self.socket: LinkSocket | None = None
        self.task: asyncio.Task[None] | None = None


class LinkAcceptor:
    """``on_socket`` receives each connection when its upgrade is done; call ``opened`` when its session is."""

    def __init__(
        self,
        on_socket: Callable[[LinkSocket], None],
        *,
        context: ssl.SSLContext | None,
        slots_max: int,
        seconds_max: float,
        failed: Counter[str],
        slot_seconds: float = SLOT_SECONDS,
    ) -> None:
        self._on_socket, self._context, self._seconds_max = on_socket, context, seconds_max
        self._failed = failed
        self._openings = HandshakeLimiter(slots_max=slots_max, slot_seconds=slot_seconds)
        self._limiter = LogLimiter(TOLD_SECONDS)
        self._by_socket: dict[ServerConnection, _Opening] = {}
        self._keys = itertools.count()
        self._listeners: list[socket.socket] = []
        self._listening = False
        self._wake: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self.handler_tasks: set[asyncio.Task[None]] = set()
        """websockets adds a task for each connection here; it lasts until the upgrade is done."""

    @property
    def under_way(self) -> int:
        """Openings in progress: TLS, the upgrade or the hello is not finished."""
        return len(self._by_socket)

    @property
    def queued(self) -> int:
        """Connections in the kernel's queue; 0 if the kernel does not tell."""
        return sum(map(_backlog, self._listeners))

    async def start(self, host: str, port: int) -> int:
        """Listen on every address of ``host``; returns the port.  Raises ``OSError``."""
        found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, *_, address in dict.fromkeys(found):
            listener = socket.create_server(cast("tuple[str, int]", address[:2]), family=family, backlog=BACKLOG)
            listener.setblocking(False)
            if hasattr(socket, "TCP_DEFER_ACCEPT"):
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, int(self._seconds_max) or 1)
            self._listeners.append(listener)
        self._resume()
        return int(self._listeners[0].getsockname()[1])

    def close(self) -> None:
        """Accept no more connections; openings in progress continue."""
        self._pause()
        if self._wake is not None:
            self._wake.cancel()
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()

    def opened(self, connection: LinkSocket) -> None:
        """The connection became a session or was refused with a reason: free its slot and cancel its deadline."""
        opening = self._by_socket.get(connection)
        if opening is not None:
            self._end(opening)

    # ---- accepting -------------------------------------------------------------------------------

    def _resume(self) -> None:
        self._wake = None
        if not self._listening:
            self._listening = True
            for listener in self._listeners:
                self._loop.add_reader(listener, self._ready, listener)

    def _pause(self) -> None:
        if self._listening:
            self._listening = False
            for listener in self._listeners:
                self._loop.remove_reader(listener)

    def _ready(self, listener: socket.socket) -> None:
        while self._openings.may_begin(now := self._loop.time()):
            try:
                accepted, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    # Linux reports network errors here (accept(2)); they concern that connection, not us.
                    _log.warning("accept_failed", reason=str(error))
                    return
                _log.error("accept_delayed", reason=str(error), seconds=EXHAUSTED_SECONDS)
                self._pause()
                self._wake = self._loop.call_later(EXHAUSTED_SECONDS, self._resume)
                return
            if _has_left(accepted):
                accepted.close()
                self._failed["left"] += 1
            else:
                self._begin(accepted, f"{address[0]}:{address[1]}", now)
        self._pause()
        self._wake = self._loop.call_at(self._openings.next_slot(), self._resume)

    def _begin(self, accepted: socket.socket, peer: str, now: float) -> None:
        opening = _Opening(next(self._keys), peer)
        opening.deadline = self._loop.call_at(now + self._seconds_max, self._give_up, opening)
        opening.task = self._loop.create_task(self._open(opening, accepted))
        self._openings.begin(opening.key, now)

    def _end(self, opening: _Opening) -> None:
        if opening.over:
            return
        opening.over = True
        self._openings.end(opening.key)
        if opening.deadline is not None:
            opening.deadline.cancel()
        if opening.socket is not None:
            self._by_socket.pop(opening.socket, None)
        if not self._listening and self._listeners and self._wake is not None:
            self._wake.cancel()
            self._wake = self._loop.call_at(self._loop.time(), self._resume)

    def _give_up(self, opening: _Opening) -> None:
        self._fail(opening, "deadline", f"no session within {self._seconds_max:g} s")
        if opening.task is not None and not opening.task.done():
            opening.task.cancel()
        elif opening.socket is not None:
            opening.socket.transport.abort()

    def _fail(self, opening: _Opening, reason: str, text: str) -> None:
        if opening.over:
            return
        self._failed[reason] += 1
        # A node that returns every second is logged only once in a while.
        times = self._limiter.due((opening.peer.rpartition(":")[0], reason, text), self._loop.time())
        if times is not None:
            _log.info("opening_failed", peer=opening.peer, reason=reason, text=text, times=times)
        self._end(opening)

    # ---- one connection --------------------------------------------------------------------------

    async def _open(self, opening: _Opening, accepted: socket.socket) -> None:
        """TCP and TLS; the upgrade follows in ``handler``."""

        def protocol() -> LinkSocket:
            # What websockets requires of its server is below: ``handler``, ``handler_tasks``, ``is_serving``.
            opening.socket = LinkSocket(
                ServerProtocol(max_size=codec.FRAME_BYTES_MAX), cast(Server, self), close_seconds=CLOSE_SECONDS
            )
            self._by_socket[opening.socket] = opening
            return opening.socket

        patience: dict[str, Any] = {}
        if self._context is not None:
            patience = {"ssl_handshake_timeout": self._seconds_max + 1, "ssl_shutdown_timeout": CLOSE_SECONDS}
        accepted.setblocking(False)
        # Duplicate: the loop closes its socket before we know that there is something left to send.
        alert_socket = handshake.spare(accepted) if self._context is not None else None
        try:
            await self._loop.connect_accepted_socket(protocol, accepted, ssl=self._context, **patience)
        except ssl.SSLError as error:
            refused = handshake.refusal(error)
            if refused is None:
                self._fail(opening, "tls", error.reason or str(error))
            else:
                self._refuse(opening, refused, alert_socket)
        except OSError as error:
            self._fail(opening, "left", str(error))
        except asyncio.CancelledError:
            self._end(opening)
            raise
        finally:
            if alert_socket is not None:
                alert_socket.close()

    def _refuse(self, opening: _Opening, refused: handshake.HandshakeFailure, connection: socket.socket | None) -> None:
        """Report whose certificate failed: in the log once in a while, to the node immediately."""
        if opening.over:
            return
        handshake.send_alert(connection, refused)
        self._failed["certificate"] += 1
        refused.log(peer=opening.peer)
        self._end(opening)

    def is_serving(self) -> bool:
        """websockets calls this before it answers an upgrade; a hub that drains refuses with its own message."""
        return True

    async def handler(self, connection: LinkSocket) -> None:
        """The upgrade; runs in a task that websockets creates."""
        task = asyncio.current_task()
        assert task is not None
        opening = self._by_socket.get(connection)
        if opening is not None:
            opening.task = task
        try:
            await connection.handshake(server_header=None)
        except ConnectionClosed:
            connection.transport.abort()
        finally:
            self.handler_tasks.discard(task)
            if opening is not None:
                opening.task = None
            if connection.protocol.state is State.OPEN:
                self._on_socket(connection)
            else:
                connection.transport.abort()
                if opening is not None:
                    self._fail(opening, "upgrade", str(connection.protocol.handshake_exc or ""))


def _backlog(listener: socket.socket) -> int:
    if not hasattr(socket, "TCP_INFO"):
        return 0
    try:
        info = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32)
    except OSError:
        return 0
    # For a listening socket tcpi_unacked, after eight bytes and four words, is the length of its queue.
    return int.from_bytes(info[24:28], sys.byteorder)


def _has_left(accepted: socket.socket) -> bool:
    """A node that waited too long has closed its side: no handshake is wasted on it."""
    if not hasattr(select, "POLLRDHUP"):
        return False
    poll = select.poll()
    poll.register(accepted, select.POLLRDHUP)
    return bool(poll.poll(0))


# ---- one connection, once it is a session --------------------------------------------------------


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
