"""Plain HTTP: health, readiness, metrics, and where everything stands for the command line."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web

from fairlead_hub import explain
from fairlead_hub.hub import Hub
from fairlead_wire import browser

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")


def _error(status: int, code: str, text: str) -> web.Response:
    return _json({"error": {"code": code, "message": text}}, status)


@web.middleware
async def _no_pages(request: web.Request, handler: Handler) -> web.StreamResponse:
    reason = "" if request.secure or not request.path.startswith("/v1/") else browser.refusal(request.headers)
    return _error(403, "forbidden", reason) if reason else await handler(request)


class Health:
    """``not_ready`` is empty once the hub serves."""

    def __init__(self) -> None:
        self.not_ready = "starting"

    def add_to(self, app: web.Application, metrics: Callable[[], bytes]) -> None:
        async def healthz(_: web.Request) -> web.Response:
            return web.Response(text="ok\n")

        async def readyz(_: web.Request) -> web.Response:
            if self.not_ready:
                return web.Response(text=f"{self.not_ready}\n", status=503)
            return web.Response(text="ok\n")

        async def exposition(_: web.Request) -> web.Response:
            return web.Response(body=metrics(), content_type="text/plain", charset="utf-8")

        app.router.add_get("/healthz", healthz)
        app.router.add_get("/readyz", readyz)
        app.router.add_get("/metrics", exposition)


def account_routes(app: web.Application, hub: Hub, clock: Callable[[], float]) -> None:
    """``/v1/nodes`` and ``/v1/explain``: read-only, and on loopback not for the pages of a browser there."""
    app.middlewares.append(_no_pages)

    async def all_nodes(_: web.Request) -> web.Response:
        return _json({"hub": hub.name, "fence": hub.fence, "nodes": explain.nodes(hub, clock())})

    async def one_node(request: web.Request) -> web.Response:
        name = request.match_info["node"]
        found = explain.node(hub, name, clock())
        return _json(found) if found is not None else _error(404, "no_node", f"there is no edge Node {name}")

    async def why(request: web.Request) -> web.Response:
        query = request.query
        missing = [key for key in ("node", "kind", "name") if not query.get(key)]
        if missing:
            return _error(
                400, "missing_parameter", f"{missing[0]}: needed, as in /v1/explain?node=&kind=&namespace=&name="
            )
        return _json(
            explain.explain(hub, query["node"], query["kind"], query.get("namespace", ""), query["name"], clock())
        )

    app.router.add_get("/v1/nodes", all_nodes)
    app.router.add_get("/v1/nodes/{node}", one_node)
    app.router.add_get("/v1/explain", why)


async def listen(
    app: web.Application, host: str, port: int, context: ssl.SSLContext | None = None
) -> tuple[web.AppRunner, int]:
    """Start serving; returns the runner (``cleanup`` ends it) and the port."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, host, port, ssl_context=context)
    await site.start()
    return runner, int(runner.addresses[0][1])
