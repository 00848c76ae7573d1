"""Reports the agent's state to systemd: ready, alive, stopping.

The protocol of ``sd_notify``: one datagram with lines ``KEY=value`` to the socket named by ``NOTIFY_SOCKET``.  Without
that variable (a Pod, a terminal) everything here does nothing.

Watchdog pings are sent by a task of the event loop, so a call that blocks forever or an endless loop leads to a restart
after ``WatchdogSec``.  They do not depend on the hub or the disk, because a restart fixes neither.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Mapping
from typing import Final

from fairlead_wire.io import logs

PINGS_PER_TIMEOUT: Final = 3
"""Two pings may be missed before systemd kills the agent."""
REPAIR_SECONDS: Final = 3600
"""The watchdog's timeout while damaged stores are reopened, when no pings are sent; a small device may be slow."""

STATE_SECONDS_MAX: Final = 2.0
"""How long to wait for room in systemd's queue, because a lost READY=1 would not be sent again."""

_log = logs.get("edge.service_manager")


class ServiceManager:
    """The service manager that started the agent, if it wants notifications.

    Args:
      address: Path of a Unix datagram socket; "" for none; abstract sockets begin with "@".
      watchdog_seconds: It kills the agent after this long without a ping; 0 for never.
    """

    def __init__(self, address: str = "", *, watchdog_seconds: float = 0.0) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._watchdog_seconds = watchdog_seconds

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], *, pid: int | None = None) -> ServiceManager:
        """From the variables that systemd sets.  A watchdog for another process (``WATCHDOG_PID``) is ignored."""
        own = str(os.getpid() if pid is None else pid)
        microseconds = environ.get("WATCHDOG_USEC", "")
        ours = environ.get("WATCHDOG_PID", own) == own and microseconds.isascii() and microseconds.isdigit()
        return cls(environ.get("NOTIFY_SOCKET", ""), watchdog_seconds=int(microseconds) / 1e6 if ours else 0.0)

    def ready(self) -> None:
        """The local API is serving, so units ordered after the agent may start."""
        lines = [f"WATCHDOG_USEC={round(self._watchdog_seconds * 1e6)}"] if self._watchdog_seconds else []
        self._send(["READY=1", "STATUS=serving", *lines])

    def repairing(self) -> None:
        """Stores are being reopened and checked, which blocks the event loop."""
        lines = [f"WATCHDOG_USEC={REPAIR_SECONDS * 1_000_000}"] if self._watchdog_seconds else []
        self._send(["STATUS=a store is damaged: salvaging what can be read", *lines])

    def stopping(self) -> None:
        """Nothing new is accepted."""
        self._send(["STOPPING=1", "STATUS=stopping"])

    async def keep_alive(self) -> None:
        """Ping until cancelled; without a watchdog, only wait."""
        if not (self._address and self._watchdog_seconds):
            await asyncio.get_running_loop().create_future()
        while True:
            self._send(["WATCHDOG=1"], waits=False)
            await asyncio.sleep(self._watchdog_seconds / PINGS_PER_TIMEOUT)

    def _send(self, lines: list[str], *, waits: bool = True) -> None:
        if not self._address:
            return
        try:
            with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)) as sender:
                sender.settimeout(STATE_SECONDS_MAX if waits else 0.0)
                sender.connect(self._address)
                sender.send("\n".join(lines).encode())
        except OSError as error:
            # Not a reason to stop: if pings do not arrive, systemd acts on its own.
            _log.warning("service_manager_silent", **logs.describe_error(error), remedy="check NOTIFY_SOCKET")
