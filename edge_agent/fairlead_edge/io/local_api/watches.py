"""Watches: streams of events from the store's change log, one JSON line each.

A watch reads the log at its own pace.  If it falls behind what the log keeps, it gets 410 and the client lists again,
so a slow reader costs no memory.
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
"""How many may be open; more are refused with 429."""
RETRY_AFTER_SECONDS: Final = 5
WATCH_SECONDS_MAX: Final = 3600
"""The maximum, and default, duration of a watch."""
BOOKMARK_SECONDS: Final = 60.0

Show = Callable[[HeldObject, int], dict[str, Any]]
"""(object, version) → the document for the client."""


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
        """End every watch cleanly, because the agent is stopping."""
        self._ending = True
        for changed in self._open:
            changed.set()

    def _changed(self, _: VersionedChange[HeldObject]) -> None:
        self.wake()

    def wake(self) -> None:
        """Let every watch read the log, which may have lost the version that they are at."""
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
            # The deadline also ends watches of clients that vanished silently.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(wanted, WATCH_SECONDS_MAX)):
                    if await stream.begin(initial, mark_initial_end):
                        await self._follow(stream, changed)
            if stream.began:
                await stream.bookmark()
            await stream.response.write_eof()
        except ConnectionResetError:
            pass  # the client disconnected
        finally:
            self._open.discard(changed)
        return stream.response

    async def _follow(self, stream: _Stream, changed: asyncio.Event) -> None:
        while not self._ending:
            changed.clear()
            try:
                # Not more than one write at a time, so that a slow reader does not keep dropped changes in memory.
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
        """All initial objects were sent; only from then on bookmarks are correct."""

    async def begin(self, initial: AsyncIterator[bytes] | None, mark_end: bool) -> bool:
        """Send the initial objects; False if their version is no longer kept and an error was sent instead."""
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
        """Report that the watch fell behind the log."""
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
