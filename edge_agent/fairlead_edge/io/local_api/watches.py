"""Watches: a stream of events from the store's change log, one line each.

A watch reads the log at its own pace; one that falls behind what the log keeps gets 410 and lists again, so
that a slow reader costs no memory.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import msgspec
from aiohttp import web

from fairlead_edge.io.local_api import connections
from fairlead_edge.io.local_api.connections import CHUNK_BYTES
from fairlead_edge.objects.kinds import Kind
from fairlead_edge.objects.metastore import HeldObject
from fairlead_edge.objects.presentation import api_requests, listing
from fairlead_edge.objects.presentation.api_requests import ApiError
from fairlead_edge.objects.watch_history import HistoryExpired, VersionedChange, WatchHistory

WATCHES_MAX: Final = 256
"""Open at once; more are asked to come back."""
RETRY_AFTER_SECONDS: Final = 5
WATCH_SECONDS_MAX: Final = 3600
"""The longest a watch lasts, and how long one lasts that does not say."""
BOOKMARK_SECONDS: Final = 60.0

Show = Callable[[HeldObject, int], dict[str, Any]]
"""(object, version) → what the client gets."""


class Watches:
    """All open watches."""

    def __init__(self, log: WatchHistory[HeldObject]) -> None:
        self._log = log
        self._open: set[asyncio.Event] = set()
        self._ending = False
        log.listen(self._changed)

    def __len__(self) -> int:
        return len(self._open)

    def end(self) -> None:
        """The agent stops: every watch ends cleanly."""
        self._ending = True
        for changed in self._open:
            changed.set()

    def _changed(self, _: VersionedChange[HeldObject]) -> None:
        self.wake()

    def wake(self) -> None:
        """Let every watch read the log: it may have lost what they follow."""
        for changed in self._open:
            changed.set()

    async def serve(
        self,
        request: web.Request,
        scope: listing.ListScope,
        kind: Kind,
        *,
        start: int,
        initial: AsyncIterator[bytes] | None,
        show: Show,
        mark_initial_end: bool,
    ) -> web.StreamResponse:
        """Send events after ``start``, the ``initial`` objects first.  Raises ``HistoryExpired``, ``ApiError``."""
        wanted = listing.read_number(request.query, "timeoutSeconds") or WATCH_SECONDS_MAX
        self._log.since(start)  # refuse with 410 before the stream begins
        if len(self._open) >= WATCHES_MAX:
            raise ApiError(429, f"{WATCHES_MAX} watches are open", details={"retryAfterSeconds": RETRY_AFTER_SECONDS})
        stream = _Stream(request, scope, kind, show, start)
        changed = asyncio.Event()
        self._open.add(changed)
        try:
            # The deadline is also how a client that silently vanished is noticed.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(wanted, WATCH_SECONDS_MAX)):
                    if await stream.begin(initial, mark_initial_end):
                        await self._follow(stream, changed)
            if stream.began:
                await stream.bookmark()
            await stream.response.write_eof()
        except ConnectionResetError:
            pass  # the client went away
        finally:
            self._open.discard(changed)
        return stream.response

    async def _follow(self, stream: _Stream, changed: asyncio.Event) -> None:
        while not self._ending:
            changed.clear()
            try:
                # No more than one write's: a slow reader must not keep alive what the log has dropped.
                changes = self._log.since(stream.version, bytes_max=CHUNK_BYTES)
            except HistoryExpired as error:
                await stream.expired(error)
                return
            for change in changes:
                await stream.send(change)
            if changes:
                continue
            try:
                await asyncio.wait_for(changed.wait(), BOOKMARK_SECONDS)
            except TimeoutError:
                await stream.bookmark()


class _Stream:
    """One response being written."""

    def __init__(self, request: web.Request, scope: listing.ListScope, kind: Kind, show: Show, start: int) -> None:
        self.response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache"})
        self.version = start
        self._request = request
        self._scope = scope
        self._kind = kind
        self._show = show
        self._bookmarks = request.query.get("allowWatchBookmarks", "").lower() in ("true", "1")
        self.began = False
        """The initial objects were all sent: from here a bookmark is true."""

    async def begin(self, initial: AsyncIterator[bytes] | None, mark_end: bool) -> bool:
        """False: their version is no longer kept, and the client was sent an error."""
        await self.response.prepare(self._request)
        try:
            if initial is not None:
                async for events in initial:
                    if events:
                        await self._write(events)
        except HistoryExpired as error:
            await self.expired(error)
            return False
        if mark_end:
            await self._mark(initial_events_end=True)
        self.began = True
        return True

    async def send(self, change: VersionedChange[HeldObject]) -> None:
        for type_, held in listing.events(change, self._scope):
            await self._write(event(type_, self._show(held, change.version)))
        self.version = change.version

    async def bookmark(self) -> None:
        if self._bookmarks:
            await self._mark()

    async def expired(self, error: HistoryExpired) -> None:
        """The watch fell behind."""
        await self._write(event("ERROR", api_requests.status(ApiError(410, f"too old resource version: {error}"))))

    async def _mark(self, *, initial_events_end: bool = False) -> None:
        mark = listing.bookmark(
            self._kind.kind, self._kind.api_version, self.version, initial_events_end=initial_events_end
        )
        await self._write(event("BOOKMARK", mark))

    async def _write(self, lines: bytes) -> None:
        await connections.write(self._request, self.response, lines)


def event(type_: str, shown: dict[str, Any]) -> bytes:
    """One line of a watch."""
    return msgspec.json.encode({"type": type_, "object": shown}) + b"\n"
