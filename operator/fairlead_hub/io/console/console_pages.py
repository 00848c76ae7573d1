"""The addresses below /console/: pages, rows as JSON, the stream, style and script.  All of it is read-only."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Awaitable, Callable
from importlib import resources

from aiohttp import web

from fairlead_hub.console import access, node_line, pages
from fairlead_hub.console.pages import PageContext
from fairlead_hub.io.console.event_stream import EventStreams
from fairlead_hub.io.console.live_source import LiveSource
from fairlead_hub.view import LIST_MAX, HubView
from fairlead_wire.objects import api_group

ROOT = "/console"
ASSETS = ("console.css", "console.js", "live.js", "nodes.js", "ages.js")
EXPLAIN = ("node", "kind", "namespace", "name")
TEXT_CHARS_MAX = 253
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


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
    reason = access.refusal(request.headers, secure=request.secure)
    try:
        answer: web.StreamResponse = (
            web.Response(text=pages.plain(reason), status=403, content_type="text/html")
            if reason
            else await handler(request)
        )
    except web.HTTPException as error:
        error.headers.update(access.HEADERS)
        raise
    if not answer.prepared:
        answer.headers.update(access.HEADERS)
    return answer


class ConsolePages:
    """See the module docstring."""

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
            return self._problem(context, f"T{api_group.no_edge_node(name[:TEXT_CHARS_MAX])[1:]}")
        edge = view.edge(name)
        queues = list(edge.queues[:LIST_MAX]) if edge is not None else []
        line = node_line.of(view, name, view.session(name))
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
        return await self.streams.serve(request, access.HEADERS)

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
