"""Authentication for the local API: by the agent's token, by a module's token, or none."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from aiohttp import web

from fairlead_edge.io.local_api import operations, responses
from fairlead_edge.module_tokens import ModuleTokens
from fairlead_wire.http import browser

OPEN_PATHS: Final = frozenset(each.path for each in operations.OPERATIONS if each.is_open)
"""Paths that need no token: probes have none and learn nothing, and the API description is the same on all nodes."""
_BEARER: Final = "Bearer "

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class LocalCaller(msgspec.Struct, frozen=True, kw_only=True):
    """Who sent a request: the holder of the agent's token, or of the token of ``module``."""

    is_agent: bool = False
    module: str = ""


UNKNOWN_TOKEN: Final = "the token is not known here (it may have been replaced)"
NO_TOKEN: Final = LocalCaller()
"""No token was sent, or tokens are not checked."""


class AccessGuard:
    """Checks the tokens of requests.  With ``required``, everything except ``OPEN_PATHS`` needs one; Secrets always
    need the agent's token.  ``modules`` returns the current tokens of modules; None: there are none.

    If no token is required (on loopback), requests from web pages in a browser of this machine are still refused.
    """

    def __init__(self, token: str, *, required: bool, modules: Callable[[], ModuleTokens] | None = None) -> None:
        self._expected = token.encode()
        self._required = required
        self._modules = modules

    def knows(self, request: web.Request) -> bool:
        """Whether the request carries the agent's token."""
        shown = _shown(request)
        return shown is not None and hmac.compare_digest(shown.encode(errors="replace"), self._expected)

    def caller(self, request: web.Request) -> LocalCaller | None:
        """The sender of a request; None if its token is neither the agent's nor a module's."""
        if self.knows(request):
            return LocalCaller(is_agent=True)
        shown = _shown(request)
        if self._modules is None or shown is None:
            return NO_TOKEN
        module = self._modules().module_of(shown)
        return LocalCaller(module=module) if module else None

    def has_token(self, module: str) -> bool:
        """Whether this module has a token."""
        return self._modules is not None and self._modules().has(module)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in OPEN_PATHS:
            return await handler(request)
        caller = self.caller(request)
        if caller is None or (self._required and caller == NO_TOKEN):
            text = "send the token from the agent's data folder, or a module's token: Authorization: Bearer …"
            if caller is None or _shown(request) is not None:
                text = f"{UNKNOWN_TOKEN}; {text}"
            headers = {"WWW-Authenticate": "Bearer"}
            return responses.error(401, "unauthorized", text, headers=headers, path=request.path)
        if self._required:
            return await handler(request)
        if reason := browser.refusal(request.headers):
            return responses.error(403, "forbidden", reason, path=request.path)
        return await handler(request)


def _shown(request: web.Request) -> str | None:
    header = request.headers.get("Authorization", "")
    return header.removeprefix(_BEARER).strip() if header.startswith(_BEARER) else None
