"""Tracks what each connection of a port is doing, and chooses the one to close when the limit is reached.

    opened ──▶ silent ──began──▶ at work ──ended──▶ idle ──began──▶ …

A connection between two requests is idle; one that sends a body byte by byte, or does not read its response, is slow.
A connection whose complete request is being answered is never chosen.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from aiohttp import web

from fairlead_wire.io import logs

SLOW_BODY_SECONDS: Final = 1.0
"""If no connection is idle, one that has been uploading for longer than this is closed; younger ones come last."""
SLOW_READER_SECONDS: Final = 5.0
"""The same for a response that is not read."""
STALLED_SECONDS_MAX: Final = 30.0
"""A connection is always closed if nothing of its response was read for this long."""
PROGRESS_BYTES: Final = 64 * 1024
"""Bytes of a waiting response that must be read to count as progress."""
WRITE_SECONDS_MAX: Final = 30.0
"""How long a part of a streamed response may wait for its client to read."""
CHUNK_BYTES: Final = 64 * 1024
"""How much a streamed response reads from the store at a time."""
UNSENT_BYTES_MAX: Final = 32 * 1024 * 1024
"""Unread bytes of responses on all connections of a port; beyond this, the slowest readers are closed."""
SMALL_ANSWER_BYTES: Final = 16 * 1024
"""Connections with less unread data are not closed: they are responses to probes and publishers."""


_log = logs.get("edge.listening")


class _Activity(NamedTuple):
    """The activity of one connection; times are of the loop's clock."""

    since: float
    """When it was opened, or a request began or ended."""
    read_at: float
    """When the client last read some of its response."""
    is_silent: bool = True
    """It has not sent any request."""
    request: web.Request | None = None
    unread: int = 0
    """The fewest unread bytes of the response since ``read_at``."""


class LocalConnections:
    """The connections of a port.  The server reports what happens on them; the listener asks which ones to close."""

    def __init__(self) -> None:
        self._activity: dict[asyncio.BaseProtocol, _Activity] = {}
        self._held: dict[asyncio.BaseProtocol, int] = {}
        self.closed: Counter[str] = Counter()
        """Connections closed because the client did not read, by reason: ``stalled``, ``budget``."""

    @property
    def unsent(self) -> int:
        """Unread bytes of all responses."""
        return sum(map(self._waiting, self._activity))

    def _waiting(self, protocol: asyncio.BaseProtocol) -> int:
        return _unsent(protocol) + self._held.get(protocol, 0)

    def hold(self, protocol: asyncio.BaseProtocol, size: int) -> None:
        """Count ``size`` bytes of a streamed response that cannot be written yet, because its client does not read."""
        if size:
            self._held[protocol] = size
        else:
            self._held.pop(protocol, None)

    def opened(self, protocol: asyncio.BaseProtocol, now: float) -> None:
        self._activity[protocol] = _Activity(now, now)

    def began(self, request: web.Request) -> None:
        """A request has arrived, perhaps still without its body."""
        if (before := self._activity.get(request.protocol)) is not None:
            now = _now()  # a new request means that the previous response was read, or nearly
            self._activity[request.protocol] = before._replace(since=now, read_at=now, is_silent=False, request=request)

    def ended(self, request: web.Request) -> None:
        """The request is answered; the client may still have to read the response."""
        if (before := self._activity.get(request.protocol)) is not None:
            self._activity[request.protocol] = before._replace(since=_now(), request=None)

    def is_silent(self, protocol: asyncio.BaseProtocol) -> bool:
        """Whether it has not sent any request."""
        activity = self._activity.get(protocol)
        return activity is not None and activity.is_silent

    def expendable(self, protocols: Iterable[web.RequestHandler], now: float) -> web.RequestHandler | None:
        """The connection to close; None if the requests on all of them are being answered."""
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

    def progressed(self, protocol: asyncio.BaseProtocol, now: float) -> None:
        """The client has read nearly all of what was written so far."""
        if (before := self._activity.get(protocol)) is not None:
            self._activity[protocol] = before._replace(read_at=now)

    def make_room(self, coming: int, writer: asyncio.BaseProtocol | None) -> None:
        """Close the slowest readers until ``coming`` more bytes for ``writer`` fit into ``UNSENT_BYTES_MAX``."""
        if coming <= SMALL_ANSWER_BYTES:
            return
        waiting = {protocol: self._waiting(protocol) for protocol in self._activity}
        total = sum(waiting.values()) + coming
        for protocol in sorted(self._activity, key=lambda each: self._activity[each].read_at):
            if total <= UNSENT_BYTES_MAX:
                return
            if waiting[protocol] > SMALL_ANSWER_BYTES and protocol is not writer:
                total -= waiting[protocol]
                self.close(protocol, "budget", limit_bytes=UNSENT_BYTES_MAX)

    def close(self, protocol: asyncio.BaseProtocol, reason: str, **limit: float) -> None:
        """Abort the connection of a client that does not read."""
        self.closed[reason] += 1
        _log.info("client_does_not_read", reason=reason, unsent_bytes=self._waiting(protocol), **limit)
        transport: asyncio.WriteTransport | None = getattr(protocol, "transport", None)
        if transport is not None:
            transport.abort()

    def stalled(self, protocols: Iterable[web.RequestHandler], now: float) -> list[web.RequestHandler]:
        """Connections whose response was not read for ``STALLED_SECONDS_MAX``.  To be called every few seconds.

        ``protocols``: all open connections; others are forgotten.
        """
        found = []
        protocols = list(protocols)
        self._activity = {protocol: self._activity[protocol] for protocol in protocols if protocol in self._activity}
        for protocol in protocols:
            activity = self._activity.get(protocol)
            if activity is None or activity.request is not None:
                continue  # ``write`` has its own deadline for streamed responses, such as watches
            waiting = _unsent(protocol)
            if not waiting or not activity.unread or waiting <= activity.unread - PROGRESS_BYTES:
                self._activity[protocol] = activity._replace(unread=waiting, read_at=now)
            elif now - activity.read_at > STALLED_SECONDS_MAX:
                found.append(protocol)
        return found


def _rank(protocol: web.RequestHandler, activity: _Activity, now: float) -> int | None:
    """The order of closing: 0 is closed first, None never.  Clients that have just begun to send or read come last."""
    age = now - activity.since
    if activity.request is not None:
        if activity.request.content.is_eof():
            return None
        return 1 if age > SLOW_BODY_SECONDS else 3
    if _unsent(protocol):
        return 2 if age > SLOW_READER_SECONDS else 4
    return 0


CONNECTIONS: Final = web.RequestKey("connections", LocalConnections)
"""Key of a request: the connections of the port it arrived on."""


async def write(request: web.Request, response: web.StreamResponse, part: bytes) -> None:
    """Write a part of a streamed response.  Raises ``ConnectionResetError`` if its client does not read."""
    known, protocol = request.get(CONNECTIONS), request.protocol
    if known is not None:
        known.make_room(len(part), protocol)
    try:
        for at in range(0, len(part), CHUNK_BYTES):
            if known is not None:
                known.hold(protocol, len(part) - at)
            async with asyncio.timeout(WRITE_SECONDS_MAX):
                await response.write(part[at : at + CHUNK_BYTES])
            if known is not None and _unsent(protocol) <= CHUNK_BYTES:
                known.progressed(protocol, _now())
    except TimeoutError:
        if known is not None:
            known.close(protocol, "stalled", limit_seconds=WRITE_SECONDS_MAX)
        elif request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError(f"nothing was read for {WRITE_SECONDS_MAX:g} s") from None
    finally:
        if known is not None:
            known.hold(protocol, 0)


def _unsent(protocol: asyncio.BaseProtocol) -> int:
    transport: Any = getattr(protocol, "transport", None)
    return int(transport.get_write_buffer_size()) if transport is not None and not transport.is_closing() else 0


def _now() -> float:
    return asyncio.get_running_loop().time()
