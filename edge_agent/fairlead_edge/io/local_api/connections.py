"""What each connection of a port is doing, and which one makes way when all are taken.

    opened ──▶ silent ──began──▶ at work ──ended──▶ idle ──began──▶ …

A client that asked once and keeps the connection is idle; one that sends a body byte by byte, or does not read its
answer, is at work but slow.  A request that is whole and being answered never makes way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from aiohttp import web

SLOW_BODY_SECONDS: Final = 1.0
"""A body that is longer on its way makes way when nothing idle is there to; a younger one only as a last resort."""
SLOW_READER_SECONDS: Final = 5.0
"""The same for an answer that is not read."""
STALLED_SECONDS_MAX: Final = 30.0
"""An answer of which nothing was read for so long ends its connection in any case."""
PROGRESS_BYTES: Final = 64 * 1024
"""What has to be read of a waiting answer to count as reading."""


class _Activity(NamedTuple):
    """What one connection does; times of the loop's clock."""

    since: float
    """When it was opened, or a request began or ended."""
    read_at: float
    """When the client last read of its answer."""
    is_silent: bool = True
    """It never sent a request."""
    request: web.Request | None = None
    unread: int = 0
    """The fewest bytes of the answer that waited since ``read_at``."""


class Connections:
    """The listener and the server report to it; the listener asks it."""

    def __init__(self) -> None:
        self._activity: dict[asyncio.BaseProtocol, _Activity] = {}

    def opened(self, protocol: asyncio.BaseProtocol, now: float) -> None:
        self._activity[protocol] = _Activity(now, now)

    def began(self, request: web.Request) -> None:
        """A request has come, its body perhaps not yet."""
        if (before := self._activity.get(request.protocol)) is not None:
            self._activity[request.protocol] = before._replace(since=_now(), is_silent=False, request=request)

    def ended(self, request: web.Request) -> None:
        """It is answered, as far as we are concerned; the client may still have to read the answer."""
        if (before := self._activity.get(request.protocol)) is not None:
            self._activity[request.protocol] = before._replace(since=_now(), request=None)

    def is_silent(self, protocol: asyncio.BaseProtocol) -> bool:
        """Did it never send a request?"""
        activity = self._activity.get(protocol)
        return activity is not None and activity.is_silent

    def victim(self, protocols: Iterable[web.RequestHandler], now: float) -> web.RequestHandler | None:
        """Which of these can best be done without; None when all are being answered."""
        found: tuple[int, float, web.RequestHandler] | None = None
        for protocol in protocols:
            activity = self._activity.get(protocol)
            if activity is None or (rank := _rank(protocol, activity, now)) is None:
                continue
            if found is None or (rank, activity.since) < found[:2]:
                found = (rank, activity.since, protocol)
        if found is None:
            return None
        self._activity.pop(found[2], None)
        return found[2]

    def stalled(self, protocols: Iterable[web.RequestHandler], now: float) -> list[web.RequestHandler]:
        """Those whose answer waits, of which nothing was read for ``STALLED_SECONDS_MAX``.  To be called now and then.

        ``protocols`` are all that are open: what is not among them is forgotten.
        """
        found = []
        protocols = list(protocols)
        self._activity = {protocol: self._activity[protocol] for protocol in protocols if protocol in self._activity}
        for protocol in protocols:
            activity = self._activity.get(protocol)
            if activity is None or activity.request is not None:
                continue  # who writes while it works (a watch) has a deadline of its own
            waiting = _unsent(protocol)
            if not waiting or not activity.unread or waiting <= activity.unread - PROGRESS_BYTES:
                self._activity[protocol] = activity._replace(unread=waiting, read_at=now)
            elif now - activity.read_at > STALLED_SECONDS_MAX:
                found.append(protocol)
        return found


def _rank(protocol: web.RequestHandler, activity: _Activity, now: float) -> int | None:
    """0 goes first; None: not at all.  Those who only just began to send or to read go last."""
    age = now - activity.since
    if activity.request is not None:
        if activity.request.content.is_eof():
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
