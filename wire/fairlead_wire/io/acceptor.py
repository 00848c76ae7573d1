"""Listening sockets, and the loop that accepts their connections.

    bound(host, port) ─→ sockets ─→ Acceptor ─(socket, peer)→ accepted() ─coroutine→ a task that opens the connection
                                       └─ every ``tick_seconds`` → on_tick()

The owner, usually an HTTP server, handles the connections; closing the acceptor does not close them.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final

from fairlead_wire.io.logs import Logger

_REMEDIES: Final = {
    errno.EADDRINUSE: "; find the program that uses it (ss -ltnp 'sport = :{port}') and stop it, or set another port",
    errno.EADDRNOTAVAIL: "; this machine does not have this address: ip address lists those that it has",
    errno.EACCES: "; ports below 1024 need root or CAP_NET_BIND_SERVICE: set another port",
}
"""What to do, by the error of the system."""

Accepted = Callable[[socket.socket, str], Coroutine[Any, Any, None] | None]
"""Takes a connection and the peer's address; returns a coroutine that opens it, or None if it closed it."""


def bound(host: str, port: int, *, backlog: int) -> list[socket.socket]:
    """Listening sockets, one for each address of ``host``; port 0 chooses free ports.

    Raises ``OSError``, which names host and port.
    """
    made: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, at in dict.fromkeys(found):
            made.append(opened := socket.socket(family, kind, protocol))
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            opened.bind(at)
            opened.listen(backlog)
            opened.setblocking(False)
    except OSError as error:
        for each in made:
            each.close()
        remedy = _REMEDIES.get(error.errno or 0, "").format(port=port)
        raise OSError(error.errno, f"{host}:{port}: {error.strerror or error}{remedy}") from error
    return made


class Acceptor:
    """Accepts connections until ``close``, which does not close those already open.

    A task opens each connection.  At most ``opening_max`` of them run at a time; beyond that the oldest is cancelled.
    ``retry_seconds`` is the delay after a failed accept.
    """

    def __init__(
        self,
        sockets: list[socket.socket],
        accepted: Accepted,
        on_tick: Callable[[], None],
        *,
        tick_seconds: float,
        retry_seconds: float,
        log: Logger,
        opening_max: int | None = None,
    ) -> None:
        self._sockets = sockets
        self._accepted = accepted
        self._on_tick = on_tick
        self._tick_seconds = tick_seconds
        self._retry_seconds = retry_seconds
        self._log = log
        self._opening_max = opening_max
        self._opening: dict[asyncio.Task[None], None] = {}
        """Oldest first."""
        self._tasks = [asyncio.create_task(self._accept(each)) for each in sockets]
        self._tasks.append(asyncio.create_task(self._tick()))

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._sockets[0].getsockname()[:2]
        return host, port

    async def close(self) -> None:
        """Stop accepting and close the listening sockets."""
        tasks = [*self._tasks, *self._opening]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in self._sockets:
            each.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listening)
            except OSError as error:  # out of file descriptors, until open connections end
                self._log.warning("accept_failed", reason=str(error), remedy="raise the limit of open files")
                await asyncio.sleep(self._retry_seconds)
                continue
            opening = self._accepted(connection, str(address[0]))
            if opening is None:
                continue
            if self._opening_max is not None and len(self._opening) >= self._opening_max:
                oldest = next(iter(self._opening))
                del self._opening[oldest]
                oldest.cancel()
            task = asyncio.create_task(opening)
            self._opening[task] = None
            task.add_done_callback(lambda done: self._opening.pop(done, None))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._tick_seconds)
            self._on_tick()
