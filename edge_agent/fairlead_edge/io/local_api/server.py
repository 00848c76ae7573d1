"""The node's local HTTP server: authentication, errors, status, health and metrics.

objects_api   /api, /apis, /version, /openapi      objects, in the style of Kubernetes
publish_api   /v1/messages, /v1/modules, …         messages of applications
here          /v1/status, /openapi.json, /healthz, /readyz, /metrics
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from http import HTTPStatus
from typing import Any, Final

import msgspec
from aiohttp import web

from fairlead_edge.errors import StoreFailed
from fairlead_edge.io.local_api import operations, responses
from fairlead_edge.io.local_api.access import AccessGuard
from fairlead_edge.io.local_api.objects_api import speak_kubernetes
from fairlead_edge.io.local_api.responses import respond
from fairlead_wire.errors import Temporary
from fairlead_wire.http import openapi
from fairlead_wire.http.openapi import Operation

BODY_BYTES_MAX: Final = 16 * 1024 * 1024
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Status = Callable[[], Awaitable[dict[str, Any]]]
Metrics = Callable[[], Awaitable[str]]
Unready = Callable[[], str]
"""Returns why the agent is not ready; "" if it is."""


@web.middleware
async def _speak_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give errors of the router (unknown path or method) the form of all other errors."""
    try:
        return await handler(request)
    except web.HTTPClientError as error:
        headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
        text = f"{request.method} {request.path}: {error.reason.lower()}"
        code = HTTPStatus(error.status).name.lower()
        return responses.error(error.status, code, text, headers=headers, path=request.path)
    except StoreFailed as error:  # the agent exits or reopens the store; in both cases the client should retry soon
        return responses.error(503, "store_failed", str(error), retry_after_seconds=1, path=request.path)
    except Temporary as error:
        seconds = error.retry_after_seconds or 0
        return responses.error(503, "not_now", str(error), retry_after_seconds=seconds, path=request.path)


def application(
    guard: AccessGuard,
    *,
    status: Status,
    metrics: Metrics,
    unready: Unready,
    parts: Iterable[Callable[[web.Application], None]],
) -> web.Application:
    """The application of the local API; each of ``parts`` adds its routes."""
    middlewares = [guard.middleware, _speak_json, speak_kubernetes]
    app = web.Application(middlewares=middlewares, client_max_size=BODY_BYTES_MAX)

    async def answer_status(_: web.Request) -> web.Response:
        return respond(await status())

    operations.register(app, {operations.STATUS: answer_status, openapi.DESCRIBE: _describe})
    add_health(app, metrics=metrics, unready=unready)
    for add_routes in parts:
        add_routes(app)
    return app


@cache
def _document() -> bytes:
    """Built on first use, because few nodes are ever asked."""
    return msgspec.json.encode(operations.document())


async def _describe(_: web.Request) -> web.Response:
    return web.Response(body=_document(), content_type="application/json")


def health_application(*, metrics: Metrics, unready: Unready) -> web.Application:
    """An application with only health and metrics, for ``health_listen``."""
    app = web.Application()
    add_health(app, metrics=metrics, unready=unready)
    return app


def add_health(app: web.Application, *, metrics: Metrics, unready: Unready) -> None:
    """Serve ``/healthz`` (the program is running), ``/readyz`` (it serves requests) and ``/metrics``."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        reason = unready()
        return web.Response(text=reason or "ok", status=503 if reason else 200)

    async def answer_metrics(_: web.Request) -> web.Response:
        return web.Response(body=(await metrics()).encode(), headers={"Content-Type": "text/plain; version=0.0.4"})

    handlers: dict[Operation, Handler] = {
        operations.HEALTHZ: healthz,
        operations.READYZ: readyz,
        operations.METRICS: answer_metrics,
    }
    operations.register(app, handlers)
