"""The hub's listening socket: accepts connections only as fast as sessions can be opened.

    backlog ─accept─▶ Openings.begin ─▶ TLS ▸ upgrade ▸ hello ─▶ opened() ─▶ the caller's
                                             └─ left, refused, deadline ─▶ closed, counted by reason

The kernel's queue holds waiting connections at no cost to us, and those that closed meanwhile are noticed before any
work is done.  ``TCP_DEFER_ACCEPT`` keeps out connections that have not sent anything yet.
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
from collections.abc import Callable
from typing import Any, Final, cast

from websockets.asyncio.server import Server, ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State
from websockets.server import ServerProtocol

from fairlead_hub.delivery.admission import SLOT_SECONDS, HandshakeLimiter
from fairlead_hub.io.link.link_socket import LinkSocket
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
