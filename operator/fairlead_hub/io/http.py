"""Plain HTTP: health, readiness, metrics, and the state shown by the command line (``http_operations``)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any

import msgspec
from aiohttp import web

from fairlead_hub import http_operations
from fairlead_hub.cluster.watch_health import WatchHealth
from fairlead_hub.view import HubView
from fairlead_wire.http import browser, openapi
from fairlead_wire.http.openapi import Operation
from fairlead_wire.io import tls
from fairlead_wire.objects import api_group

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
HANDSHAKE_SECONDS = 10.0
STOP_SECONDS = 5.0
"""How long shutdown waits for unfinished answers; a client that does not read would delay it."""
CONNECTIONS_MAX = 512
"""Per port; more than 100 open pages and their further requests need."""


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")


def _error(status: int, code: str, text: str) -> web.Response:
    return _json({"error": {"code": code, "message": text}}, status)


@web.middleware
async def _no_pages(request: web.Request, handler: Handler) -> web.StreamResponse:
    reason = "" if request.secure or not request.path.startswith("/v1/") else browser.refusal(request.headers)
    return _error(403, "forbidden", reason) if reason else await handler(request)


@web.middleware
async def _no_nodes(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse nodes: where one authority signs for all, their certificates are trusted here too."""
    certificate = request.get_extra_info("peercert")
    if any(role == tls.NODE_ROLE for role, _ in tls.peer_roles(certificate)):
        reason = "the certificate is a node's: use that of a person or a program (spiffe://…/node/… is refused here)"
        return _error(403, "forbidden", reason)
    return await handler(request)


def _add(app: web.Application, handlers: Mapping[Operation, Handler]) -> None:
    for operation, handler in handlers.items():
        app.router.add_get(operation.path, handler)  # HEAD, too; nothing else is served


@cache
def _document() -> bytes:
    """The OpenAPI document, made on first use."""
    return msgspec.json.encode(http_operations.document())


async def _describe(_: web.Request) -> web.Response:
    return web.Response(body=_document(), content_type="application/json")


class HubHealth:
    """``stale`` returns the watches that are behind, one line each, and whether they make the hub not ready."""

    def __init__(self, stale: Callable[[], tuple[list[str], bool]]) -> None:
        self._not_ready = "starting"
        self._stale = stale

    def serves(self) -> None:
        """The hub serves nodes now."""
        self._not_ready = ""

    def stops(self) -> None:
        """The hub is stopping."""
        self._not_ready = "stopping"

    @property
    def not_ready(self) -> str:
        """Why it serves no nodes; empty if it does."""
        return self._not_ready

    def add_to(self, app: web.Application, metrics: Callable[[], bytes]) -> None:
        async def healthz(_: web.Request) -> web.Response:
            return web.Response(text="ok\n")

        async def readyz(_: web.Request) -> web.Response:
            if self._not_ready:
                return web.Response(text=f"{self._not_ready}\n", status=503)
            lines, too_much = self._stale()
            return web.Response(
                text="\n".join([*(() if too_much else ("ok",)), *lines, ""]), status=503 if too_much else 200
            )

        async def exposition(_: web.Request) -> web.Response:
            return web.Response(body=metrics(), content_type="text/plain", charset="utf-8")

        handlers = {
            http_operations.HEALTHZ: healthz,
            http_operations.READYZ: readyz,
            http_operations.METRICS: exposition,
        }
        _add(app, handlers)


class NodesApi:
    """``/v1/nodes`` and ``/v1/explain``: read-only; on loopback, browser pages are refused."""

    def __init__(self, view: HubView, freshness: WatchHealth, clock: Callable[[], float]) -> None:
        self._view, self._freshness, self._clock = view, freshness, clock

    def add_to(self, app: web.Application) -> None:
        app.middlewares.append(_no_pages)
        handlers = {
            http_operations.NODES: self._all_nodes,
            http_operations.NODE: self._one_node,
            http_operations.EXPLAIN: self._explain,
            openapi.DESCRIBE: _describe,
        }
        _add(app, handlers)

    def stale(self) -> tuple[list[str], bool]:
        """For readiness: what is not followed, and whether the hub decides by it."""
        found = self._view.stale(self._freshness, self._clock())
        lines = [f"stale: {one['collection']} since {one['since']} ({one['reason']})" for one in found["stale"]]
        return lines, self._freshness.is_blind(self._clock())

    async def _all_nodes(self, _: web.Request) -> web.Response:
        view, now = self._view, self._clock()
        stale = view.stale(self._freshness, now)
        rules = {"unreadable": view.unreadable(), "troubled": view.troubled()}
        return _json({"hub": view.name, "fence": view.fence, **stale, "nodes": view.nodes(now), **rules})

    async def _one_node(self, request: web.Request) -> web.Response:
        name = request.match_info["node"]
        found = self._view.node(name, self._clock())
        return (
            _json(found)
            if found is not None
            else _error(404, "no_node", api_group.no_edge_node(name, self._view.edge_nodes))
        )

    async def _explain(self, request: web.Request) -> web.Response:
        query = request.query
        missing = [key for key in ("node", "kind", "name") if not query.get(key)]
        if missing:
            return _error(
                400, "missing_parameter", f"{missing[0]}: required, as in /v1/explain?node=&kind=&namespace=&name="
            )
        namespace = query.get("namespace", "")
        return _json(self._view.explained(query["node"], query["kind"], namespace, query["name"], self._clock()))


class HttpConnections:
    """The connections of one port: idle ones are closed to make room.

    Without a limit they would take file descriptors that nodes and the API server need, and the port for probes is open
    to every Pod.
    """

    def __init__(self) -> None:
        self._busy: set[object] = set()

    @web.middleware
    async def note(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Record a request on this connection while its answer is being made; for a stream, while it is open."""
        self._busy.add(request.protocol)
        try:
            return await handler(request)
        finally:
            self._busy.discard(request.protocol)

    def make_room(self, server: web.Server) -> None:
        """Close a connection to make room: the oldest idle one, or the oldest of all."""
        stay = [each for each in server.connections if each.transport is not None and not each.transport.is_closing()]
        if len(stay) < CONNECTIONS_MAX:
            return
        found = next((each for each in stay if each not in self._busy), stay[0])
        if found.transport is not None:
            found.transport.abort()


async def listen(
    app: web.Application, host: str, port: int, context: ssl.SSLContext | None = None
) -> tuple[web.AppRunner, int]:
    """Start serving; returns the runner (``cleanup`` stops it) and the port."""
    connections, listening = HttpConnections(), list[asyncio.Server]()
    app.middlewares.insert(0, connections.note)
    if context is not None:
        app.middlewares.insert(1, _no_nodes)

    async def accept_no_more(_: web.Application) -> None:
        for each in listening:
            each.close()

    app.on_shutdown.insert(0, accept_no_more)
    # Compressed requests are decompressed by their handlers, which know how large they may be.
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_SECONDS, auto_decompress=False)
    await runner.setup()
    server = runner.server
    assert server is not None

    def accepted() -> asyncio.BaseProtocol:
        connections.make_room(server)
        return server()

    loop, seconds = asyncio.get_running_loop(), HANDSHAKE_SECONDS if context is not None else None
    try:
        opened = await loop.create_server(accepted, host, port, ssl=context, ssl_handshake_timeout=seconds)
    except OSError:
        await runner.cleanup()
        raise
    listening.append(opened)
    return runner, int(opened.sockets[0].getsockname()[1])
