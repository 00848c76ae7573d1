"""The addresses below /console/: pages, rows as JSON, style and script, and one stream per open page.  All read-only.

    Frame ─hear─▶ queue of one listener (bounded) ─▶ socket    when full: cleared, and the page reloads (``lag``)

Everything about streams is limited: ``STREAMS_MAX`` streams, an hour each, 64 frames or ``WAITING_BYTES_MAX`` waiting,
half a minute per write.  If a write takes longer, its connection is aborted: one that is merely closed would keep its
bytes and its descriptor until the page reads them.
"""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from importlib import resources

from aiohttp import web

from fairlead_hub.cluster.watch_health import WatchHealth
from fairlead_hub.console import pages
from fairlead_hub.console.frames import PageFrame
from fairlead_hub.console.lines import node_line
from fairlead_hub.console.pages import PageContext
from fairlead_hub.io.console.live_source import LiveSource, TopicWatch
from fairlead_hub.io.console.span_ring import SpanRing
from fairlead_hub.io.http import HubHealth
from fairlead_hub.view import LIST_MAX, HubView
from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_wire.event import Event
from fairlead_wire.objects import api_group

ROLES = {"": "", "starting": "is starting, or waiting for the Lease that another hub holds", "stopping": "is stopping"}
RUN_BYTES = 6
ROOT = "/console"
ASSETS = ("console.css", "console.js", "live.js", "nodes.js", "ages.js")
EXPLAIN = ("node", "kind", "namespace", "name")
TEXT_CHARS_MAX = 253
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
STREAMS_MAX = 100
STREAM_SECONDS = 3600.0
WAITING_MAX = 64
WAITING_BYTES_MAX = 1024 * 1024
"""A single frame may be larger; then it waits alone."""
COMMENT_SECONDS = 15.0
WRITE_SECONDS = 30.0
RETRY_MS = 2000
WANTS_MAX = 16


class Console:
    """The console as ``app`` uses it: adds routes, receives events, and is given the messaging client."""

    def __init__(
        self,
        view: HubView,
        freshness: WatchHealth,
        health: HubHealth,
        clock: Callable[[], float],
        spans: SpanRing | None = None,
    ) -> None:
        assets = Assets()
        self.topics = TopicWatch(clock, view.clock, is_configured=view.settings.messaging_url is not None)
        self.source = LiveSource(
            view,
            freshness,
            clock=clock,
            role=lambda: ROLES.get(health.not_ready, health.not_ready),
            topics=self.topics,
            run=secrets.token_hex(RUN_BYTES),
            assets=assets.version,
            spans=spans,
        )
        self.pages = ConsolePages(view, self.source, assets, clock)

    def add_to(self, app: web.Application) -> None:
        self.pages.add_to(app)

    def ask(self, messaging: AsyncClient | None) -> None:
        """Set the client with which topics are polled; None if there is none, or no longer."""
        self.topics.ask(messaging)

    def publish(self, events: Iterable[Event]) -> None:
        """Record events of the hub's core."""
        self.source.publish(events)


class Assets:
    """Style and script, read once; ``version`` depends on their content."""

    def __init__(self) -> None:
        folder = resources.files("fairlead_hub.console") / "static"
        self._contents = {name: (folder / name).read_bytes() for name in ASSETS}
        self.version = hashlib.sha256(b"".join(self._contents.values())).hexdigest()[:12]

    def get(self, name: str) -> tuple[bytes, str] | None:
        if (content := self._contents.get(name)) is None:
            return None
        return content, "text/javascript" if name.endswith(".js") else mimetypes.types_map[".css"]


def _is_console(path: str) -> bool:
    return path == ROOT or path.startswith(f"{ROOT}/")


@web.middleware
async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse pages of other sites, and add the headers to every answer, including refusals."""
    if not _is_console(request.path):
        return await handler(request)
    reason = pages.refusal(request.headers, secure=request.secure)
    try:
        answer: web.StreamResponse = (
            web.Response(text=pages.plain(reason), status=403, content_type="text/html")
            if reason
            else await handler(request)
        )
    except web.HTTPException as error:
        error.headers.update(pages.HEADERS)
        raise
    if not answer.prepared:
        answer.headers.update(pages.HEADERS)
    return answer


class ConsolePages:
    """Pages, rows, style and script, with their headers; refusals are pages, too."""

    def __init__(self, view: HubView, source: LiveSource, assets: Assets, clock: Callable[[], float]) -> None:
        self._view, self._source, self._assets, self._clock = view, source, assets, clock
        self.streams = EventStreams(source, clock)

    def add_to(self, app: web.Application) -> None:
        app.middlewares.append(guard)
        get = app.router.add_get
        get(ROOT, self._moved)
        get(f"{ROOT}/", self._overview)
        get(f"{ROOT}/nodes", self._nodes)
        get(f"{ROOT}/nodes.json", self._rows)
        get(f"{ROOT}/nodes/{{node}}", self._node)
        get(f"{ROOT}/parked", self._parked)
        get(f"{ROOT}/queues", self._queues)
        get(f"{ROOT}/topics", self._topics)
        get(f"{ROOT}/events", self._events)
        get(f"{ROOT}/traces", self._traces)
        get(f"{ROOT}/explain", self._explain)
        get(f"{ROOT}/stream", self._stream, allow_head=False)
        get(f"{ROOT}/static/{{version}}/{{name}}", self._asset)
        get(f"{ROOT}/{{other:.*}}", self._none)
        app.on_shutdown.append(self._close)

    async def _close(self, _: web.Application) -> None:
        self.streams.close()
        self._source.close()

    async def _moved(self, _: web.Request) -> web.StreamResponse:
        raise web.HTTPPermanentRedirect(f"{ROOT}/")

    async def _overview(self, _: web.Request) -> web.StreamResponse:
        return _page(pages.overview(await self._source.view(), self._source.events()))

    async def _nodes(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        asked = query.get("page", "0")
        page = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 8 else 0
        search = query.get("q", "")[:TEXT_CHARS_MAX]
        return _page(pages.nodes(await self._source.view(), search, query.get("state", "")[:32], page))

    async def _rows(self, _: web.Request) -> web.StreamResponse:
        return web.Response(body=await self._source.nodes(), content_type="application/json")

    async def _node(self, request: web.Request) -> web.StreamResponse:
        view, name = self._view, request.match_info["node"]
        context = await self._source.view()
        found = view.node(name, self._clock())
        if found is None:
            return self._problem(context, f"T{api_group.no_edge_node(name[:TEXT_CHARS_MAX], view.edge_nodes)[1:]}")
        edge = view.edge(name)
        queues = list(edge.queues[:LIST_MAX]) if edge is not None else []
        line = node_line(view, name, view.session(name))
        return _page(pages.node(context, line, {**found, "queues": queues}))

    async def _parked(self, _: web.Request) -> web.StreamResponse:
        return _page(pages.parked(await self._source.view()))

    async def _queues(self, _: web.Request) -> web.StreamResponse:
        return _page(pages.queues(await self._source.view()))

    async def _topics(self, _: web.Request) -> web.StreamResponse:
        return _page(pages.topics(await self._source.view()))

    async def _events(self, _: web.Request) -> web.StreamResponse:
        return _page(pages.events(await self._source.view(), self._source.events()))

    async def _traces(self, request: web.Request) -> web.StreamResponse:
        view = await self._source.view()
        if view.traces is None:
            return self._problem(view, "This hub records no traces: [traces] endpoint is not set.")
        return _page(pages.traces(view, view.traces, request.query.get("q", "")[:TEXT_CHARS_MAX]))

    async def _explain(self, request: web.Request) -> web.StreamResponse:
        given = {key: request.query.get(key, "")[:TEXT_CHARS_MAX].strip() for key in EXPLAIN}
        answer = None
        if all(given[key] for key in ("node", "kind", "name")):
            answer = self._view.explained(
                given["node"], given["kind"], given["namespace"], given["name"], self._clock()
            )
        return _page(pages.explain(await self._source.view(), given, answer))

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        return await self.streams.serve(request, pages.HEADERS)

    async def _asset(self, request: web.Request) -> web.StreamResponse:
        found = self._assets.get(request.match_info["name"])
        if found is None:
            return await self._none(request)
        content, kind = found
        return web.Response(body=content, content_type=kind, charset="utf-8")

    async def _none(self, _: web.Request) -> web.StreamResponse:
        return self._problem(await self._source.view(), "There is no such page.")

    def _problem(self, view: PageContext, sentence: str) -> web.StreamResponse:
        return _page(pages.problem(view, 404, sentence), 404)


def _page(html: str, status: int = 200) -> web.Response:
    return web.Response(text=html, status=status, content_type="text/html")


class PageListener:
    """The frames waiting for one page."""

    def __init__(self, wants: frozenset[str]) -> None:
        self._wants = wants
        self._waiting: deque[PageFrame] = deque()
        self._bytes = 0
        self._lags = False
        self._woken = asyncio.Event()
        self.is_over = False

    def hear(self, frame: PageFrame) -> None:
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
    """All open streams of server-sent events, with what changed."""

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
            self._source.listen(listener, listener.hear)
            await self._send(response, f"retry: {RETRY_MS}\n\n".encode())
            if missed is None:
                await self._send(response, b"event: reset\ndata: {}\n\n")
            for frame in missed or ():
                listener.hear(frame)
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
