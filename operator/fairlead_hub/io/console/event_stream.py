"""One stream of server-sent events per open page, with what changed.

    Frame ─hear─▶ queue of one listener (bounded) ─▶ socket    when full: cleared, and the page reloads (``lag``)

Everything is limited: ``STREAMS_MAX`` streams, an hour each, 64 frames or ``WAITING_BYTES_MAX`` waiting, half a minute
per write.  If a write takes longer, its connection is aborted: one that is merely closed would keep its bytes and its
descriptor until the page reads them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping

from aiohttp import web

from fairlead_hub.console.frames import PageFrame
from fairlead_hub.io.console.live_source import LiveSource

STREAMS_MAX = 100
STREAM_SECONDS = 3600.0
WAITING_MAX = 64
WAITING_BYTES_MAX = 1024 * 1024
"""A single frame may be larger; then it waits alone."""
COMMENT_SECONDS = 15.0
WRITE_SECONDS = 30.0
RETRY_MS = 2000
WANTS_MAX = 16


class PageListener:
    """The frames waiting for one page."""

    def __init__(self, wants: frozenset[str]) -> None:
        self._wants = wants
        self._waiting: deque[PageFrame] = deque()
        self._bytes = 0
        self._lags = False
        self._woken = asyncio.Event()
        self.is_over = False

    def push(self, frame: PageFrame) -> None:
        if frame.name not in self._wants:
            return
        size = len(frame.encoded)
        if self._waiting and (len(self._waiting) >= WAITING_MAX or self._bytes + size > WAITING_BYTES_MAX):
            self._waiting.clear()
            self._bytes = 0
            self._lags = True
        self._waiting.append(frame)
        self._bytes += size
        self._woken.set()

    def end(self) -> None:
        self.is_over = True
        self._woken.set()

    async def next(self, seconds: float) -> bytes:
        """The frames to send; a comment if none arrived for this long."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return b": nothing new\n\n"
        self._woken.clear()
        parts = [frame.encoded for frame in self._waiting]
        self._waiting.clear()
        self._bytes = 0
        if self._lags:
            self._lags = False
            parts.insert(0, b"event: lag\ndata: {}\n\n")
        return b"".join(parts)


class EventStreams:
    """All open streams."""

    def __init__(self, source: LiveSource, clock: Callable[[], float]) -> None:
        self._source, self._clock = source, clock
        self._listeners: dict[PageListener, asyncio.Transport | None] = {}
        self._is_closing = False

    def __len__(self) -> int:
        return len(self._listeners)

    def listeners(self) -> list[PageListener]:
        """One per open page."""
        return list(self._listeners)

    def unsent(self) -> int:
        """Bytes sent to pages that they have not read yet."""
        return sum(each.get_write_buffer_size() for each in self._listeners.values() if each is not None)

    def close(self) -> None:
        """End all streams.  A stopping server would otherwise wait for them, longest for a page that does not read."""
        self._is_closing = True
        for listener, transport in self._listeners.items():
            listener.end()
            if transport is not None and transport.get_write_buffer_size():
                transport.abort()

    async def serve(self, request: web.Request, headers: Mapping[str, str]) -> web.StreamResponse:
        """``after`` or ``Last-Event-ID``: the last frame the page has seen; ``wants``: which frames are for it."""
        if self._is_closing or len(self._listeners) >= STREAMS_MAX:
            text = f"no more than {STREAMS_MAX} pages can be updated live at once; close one, or reload later\n"
            return web.Response(text=text, status=503, headers={"Retry-After": "30"})
        listener = PageListener(frozenset(request.query.get("wants", "").split(",")[:WANTS_MAX]))
        response = web.StreamResponse(headers={**headers, "X-Accel-Buffering": "no"})
        response.content_type = "text/event-stream"
        self._listeners[listener] = request.transport
        try:
            await response.prepare(request)
            seen = request.headers.get("Last-Event-ID") or request.query.get("after", "")
            # No await between the two, so that frames after the missed ones are heard.
            missed = self._source.ring.after(seen)
            self._source.listen(listener, listener.push)
            await self._send(response, f"retry: {RETRY_MS}\n\n".encode())
            if missed is None:
                await self._send(response, b"event: reset\ndata: {}\n\n")
            for frame in missed or ():
                listener.push(frame)
            await self._follow(listener, response)
        except (ConnectionError, TimeoutError):
            # The page is gone or does not read: it will reconnect.
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._source.leave(listener)
            self._listeners.pop(listener, None)
        return response

    async def _follow(self, listener: PageListener, response: web.StreamResponse) -> None:
        until = self._clock() + STREAM_SECONDS
        while not listener.is_over and (left := until - self._clock()) > 0:
            await self._send(response, await listener.next(min(COMMENT_SECONDS, left)))

    async def _send(self, response: web.StreamResponse, content: bytes) -> None:
        if content:
            async with asyncio.timeout(WRITE_SECONDS):
                await response.write(content)
