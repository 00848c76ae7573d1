"""The node's local HTTP server: who may ask, what is served, and the agent's own status.

objects_api   /api, /apis, /version, /openapi      objects held, Kubernetes style
(upstream)    /v1/messages, /v1/modules, …         what applications say
here          /v1/status, /openapi.json, /healthz, /readyz, /metrics
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from http import HTTPStatus
from typing import Any, Final

import msgspec
from aiohttp import web

from fairlead_edge.errors import StoreFailed
from fairlead_edge.io.local_api import operations
from fairlead_edge.io.local_api.callers import NO_TOKEN, LocalCaller
from fairlead_edge.io.local_api.objects_api import respond, speak_kubernetes
from fairlead_edge.module_tokens import ModuleTokens
from fairlead_edge.objects.presentation import api_errors
from fairlead_edge.objects.presentation.api_errors import ApiError
from fairlead_wire.errors import Temporary
from fairlead_wire.http import browser, openapi
from fairlead_wire.http.openapi import Operation

BODY_BYTES_MAX: Final = 16 * 1024 * 1024
OPEN_PATHS: Final = frozenset(each.path for each in operations.OPERATIONS if each.is_open)
"""Answered without a token: probes have none, and learn nothing but a word; the description is the same everywhere."""
_BEARER: Final = "Bearer "

AddRoutes = Callable[[web.Application], None]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Status = Callable[[], Awaitable[dict[str, Any]]]
Metrics = Callable[[], Awaitable[str]]
Unready = Callable[[], str]
"""Why the agent is not ready; "" when it is."""


class AccessGuard:
    """Knows who asks, by the token shown.  With ``required`` everything but the probes needs one; Secrets always need
    the agent's own.  ``modules``: the tokens of modules as they are now; None: there are none.

    Where it is not required, on loopback, pages open in a browser of this machine are kept out at least.
    """

    def __init__(self, token: str, *, required: bool, modules: Callable[[], ModuleTokens] | None = None) -> None:
        self._expected = token.encode()
        self._required = required
        self._modules = modules

    def knows(self, request: web.Request) -> bool:
        """True when the request carries the agent's own token."""
        shown = _shown(request)
        return shown is not None and hmac.compare_digest(shown.encode(errors="replace"), self._expected)

    def caller(self, request: web.Request) -> LocalCaller | None:
        """Who asks; None: a token was shown that belongs to no module and is not the agent's."""
        if self.knows(request):
            return LocalCaller(is_agent=True)
        shown = _shown(request)
        if self._modules is None or shown is None:
            return NO_TOKEN
        module = self._modules().module_of(shown)
        return LocalCaller(module=module) if module else None

    def has_token(self, module: str) -> bool:
        """Does a token of its own belong to this module?"""
        return self._modules is not None and self._modules().has(module)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in OPEN_PATHS:
            return await handler(request)
        caller = self.caller(request)
        if caller is None or (self._required and caller == NO_TOKEN):
            text = "show the token in the agent's data folder, or a module's own: Authorization: Bearer …"
            return _refused(request.path, 401, "unauthorized", text, {"WWW-Authenticate": "Bearer"})
        if self._required:
            return await handler(request)
        if reason := browser.refusal(request.headers):
            return _refused(request.path, 403, "forbidden", reason, {})
        return await handler(request)


def _shown(request: web.Request) -> str | None:
    header = request.headers.get("Authorization", "")
    return header.removeprefix(_BEARER).strip() if header.startswith(_BEARER) else None


def _refused(path: str, status: int, code: str, text: str, headers: dict[str, str]) -> web.Response:
    body: dict[str, Any] = {"error": {"code": code, "message": text}}
    if path.startswith("/api"):
        body = api_errors.status(ApiError(status, text))
    return respond(body, code=status, headers=headers)


@web.middleware
async def _speak_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What the router itself refuses (no such path, not this method) is answered like every other error."""
    try:
        return await handler(request)
    except web.HTTPClientError as error:
        headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
        text = f"{request.method} {request.path}: {error.reason.lower()}"
        return _refused(request.path, error.status, HTTPStatus(error.status).name.lower(), text, headers)
    except StoreFailed as error:  # the agent ends, or opens it anew: in both cases, ask again soon
        return _refused(request.path, 503, "store_failed", str(error), {"Retry-After": "1"})
    except Temporary as error:
        seconds = str(max(1, round(error.retry_after_seconds or 0)))
        return _refused(request.path, 503, "not_now", str(error), {"Retry-After": seconds})


def application(
    guard: AccessGuard,
    *,
    status: Status,
    metrics: Metrics,
    unready: Unready,
    parts: Iterable[Callable[[web.Application], None]],
) -> web.Application:
    """The whole server; each of ``parts`` adds its routes."""
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
    """Made when it is first asked for: few nodes are ever asked."""
    return msgspec.json.encode(operations.document())


async def _describe(_: web.Request) -> web.Response:
    return web.Response(body=_document(), content_type="application/json")


def health_application(*, metrics: Metrics, unready: Unready) -> web.Application:
    """Health alone, for ``health_listen``."""
    app = web.Application()
    add_health(app, metrics=metrics, unready=unready)
    return app


def add_health(app: web.Application, *, metrics: Metrics, unready: Unready) -> None:
    """``/healthz``: the program runs.  ``/readyz``: it serves.  ``/metrics``: Prometheus text."""

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
