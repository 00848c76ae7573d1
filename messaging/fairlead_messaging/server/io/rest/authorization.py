"""Who may ask: before a path is looked at or a body is read.

With mutual TLS the certificate has been checked by then; ``clients`` says whose name may ask, where the same authority
also names those who may not (edge nodes go through the hub, which knows the topics granted to them).  Without TLS,
on loopback, the pages open in a browser of this machine are kept out.
"""

from __future__ import annotations

from aiohttp import web

from fairlead_messaging.api.errors import Forbidden
from fairlead_messaging.api.routes import HEALTH_ROUTES, ROUTES
from fairlead_messaging.server.io.rest.http import BROKER, Handler
from fairlead_wire import browser
from fairlead_wire.io import tls

OPEN_PATHS = frozenset(route.path for route in (*ROUTES, *HEALTH_ROUTES) if route.is_open)
"""Probes learn nothing but a word, and the description is the same everywhere."""


@web.middleware
async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Raises: Forbidden."""
    settings = request.app[BROKER].settings
    if request.path in OPEN_PATHS:
        return await handler(request)
    if settings.security == "insecure":
        reason = browser.refusal(request.headers)
        if reason:
            raise Forbidden(reason)
    elif settings.clients is not None:
        name = tls.peer_name(request.get_extra_info("peercert"))
        if name not in settings.clients:
            raise Forbidden(f"{name or 'a certificate without a name'} is not among the clients of this service")
    return await handler(request)
