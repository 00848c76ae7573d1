"""What each connection of a port is doing, and which one makes way when all are taken.

    opened ──▶ silent ──began──▶ at work ──ended──▶ idle ──began──▶ …

A client that asked once and keeps the connection is idle; one that sends a body byte by byte, or does not read its
answer, is at work but slow.  A request that is whole and being answered never makes way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from aiohttp import web

SLOW_BODY_SECONDS: Final = 1.0
"""A body that is longer on its way makes way when nothing idle is there to; a younger one only as a last resort."""
SLOW_READER_SECONDS: Final = 5.0
"""The same for an answer that is not read."""
STALLED_SECONDS_MAX: Final = 30.0
"""An answer of which nothing was read for so long ends its connection in any case."""
PROGRESS_BYTES: Final = 64 * 1024
"""What has to be read of a waiting answer to count as reading."""


class _Doing:
    """One connection; times of the loop's clock."""

    __slots__ = ("least", "read_at", "request", "silent", "since")

    def __init__(self, now: float) -> None:
        self.since = now
        self.silent = True
        self.request: web.Request | None = None
        self.least = 0
        """The fewest bytes of the answer that waited, of late."""
        self.read_at = now
        """When that went down."""


class Connections:
    """The listener and the server report to it; the listener asks it."""

    def __init__(self) -> None:
        self._doing: dict[asyncio.BaseProtocol, _Doing] = {}

    def opened(self, protocol: asyncio.BaseProtocol, now: float) -> None:
        self._doing[protocol] = _Doing(now)

    def began(self, request: web.Request) -> None:
        """A request has come, its body perhaps not yet."""
        if (doing := self._doing.get(request.protocol)) is not None:
            doing.silent, doing.request, doing.since = False, request, _now()

    def ended(self, request: web.Request) -> None:
        """It is answered, as far as we are concerned; the client may still have to read the answer."""
        if (doing := self._doing.get(request.protocol)) is not None:
            doing.request, doing.since = None, _now()

    def is_silent(self, protocol: asyncio.BaseProtocol) -> bool:
        """Did it never send a request?"""
        doing = self._doing.get(protocol)
        return doing is not None and doing.silent

    def victim(self, protocols: Iterable[web.RequestHandler], now: float) -> web.RequestHandler | None:
        """Which of these can best be done without; None when all are being answered."""
        found: tuple[int, float, web.RequestHandler] | None = None
        for protocol in protocols:
            doing = self._doing.get(protocol)
            if doing is None or (rank := _rank(protocol, doing, now)) is None:
                continue
            if found is None or (rank, doing.since) < found[:2]:
                found = (rank, doing.since, protocol)
        if found is None:
            return None
        self._doing.pop(found[2], None)
        return found[2]

    def stalled(self, protocols: Iterable[web.RequestHandler], now: float) -> list[web.RequestHandler]:
        """Those whose answer waits, of which nothing was read for ``STALLED_SECONDS_MAX``.  To be called now and then.

        ``protocols`` are all that are open: what is not among them is forgotten.
        """
        found = []
        protocols = list(protocols)
        self._doing = {protocol: self._doing[protocol] for protocol in protocols if protocol in self._doing}
        for protocol in protocols:
            doing = self._doing.get(protocol)
            if doing is None or doing.request is not None:
                continue  # who writes while it works (a watch) has a deadline of its own
            waiting = _unsent(protocol)
            if not waiting or not doing.least or waiting <= doing.least - PROGRESS_BYTES:
                doing.least, doing.read_at = waiting, now
            elif now - doing.read_at > STALLED_SECONDS_MAX:
                found.append(protocol)
        return found


def _rank(protocol: web.RequestHandler, doing: _Doing, now: float) -> int | None:
    """0 goes first; None: not at all.  Those who only just began to send or to read go last."""
    age = now - doing.since
    if doing.request is not None:
        if doing.request.content.is_eof():
            return None
        return 1 if age > SLOW_BODY_SECONDS else 3
    if _unsent(protocol):
        return 2 if age > SLOW_READER_SECONDS else 4
    return 0


def _unsent(protocol: web.RequestHandler) -> int:
    transport: Any = protocol.transport
    return int(transport.get_write_buffer_size()) if transport is not None and not transport.is_closing() else 0


def _now() -> float:
    return asyncio.get_running_loop().time()
