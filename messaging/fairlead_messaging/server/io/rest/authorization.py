"""Checks permissions before a body is read.

TLS has verified the certificate by then; ``AccessControl`` identifies its subject and the grants.  Every route of the
contract declares its verbs, so none can be served unchecked.  Without TLS, on loopback, requests from web pages in a
browser on this machine are refused.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar

from aiohttp import web

from fairlead_messaging.api.errors import Forbidden
from fairlead_messaging.api.routes import ApiRoute
from fairlead_messaging.api.verbs import Verb
from fairlead_messaging.server.access import UNRESTRICTED, Caller
from fairlead_messaging.server.io.rest.http import ACCESS, BROKER, Handler, caller_of, note_caller
from fairlead_wire.http import browser

T = TypeVar("T")
EVERY_TOPIC = "*/*"
ROUTE_OF: web.AppKey[dict[Handler, ApiRoute[Any]]] = web.AppKey("route_of")
"""The contract's route of each handler."""


async def check_again_after(request: web.Request, waiting: Awaitable[T]) -> T:
    """The result of ``waiting``, unless the grant was revoked meanwhile.  Raises: as ``admit``."""
    access = request.app[ACCESS]
    replaced = access.replaced
    found = await waiting
    if access.replaced != replaced:
        _check(request, request.app[ROUTE_OF][request.match_info.handler], await _asked_again(request))
    return found


async def _asked_again(request: web.Request) -> Caller:
    """The caller with its current grants.  Raises: Unauthenticated, Unavailable."""
    certificate, peer = request.get_extra_info("peercert"), request.remote or ""
    caller = await request.app[ACCESS].caller(certificate, request.headers.get("Authorization"), peer)
    note_caller(request, caller)
    return caller


class Everywhere:
    """Checks throughout a long answer that verbs are granted on every topic."""

    def __init__(self, request: web.Request, *verbs: Verb) -> None:
        self._request, self._verbs = request, verbs
        self._replaced = request.app[ACCESS].replaced
        self._check(caller_of(request))

    async def check(self) -> None:
        """Check again if the grants were replaced.  Raises: Forbidden, Unauthenticated, Unavailable."""
        replaced = self._request.app[ACCESS].replaced
        if replaced != self._replaced:
            self._check(await _asked_again(self._request))
            self._replaced = replaced

    def _check(self, caller: Caller) -> None:
        for verb in self._verbs:
            if caller.grants is not None and not caller.grants.may_everywhere(verb):
                self._request.app[ACCESS].refuse(caller, verb, EVERY_TOPIC, self._request.remote or "")


@web.middleware
async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Middleware that identifies the caller and checks its grants.  Raises: Forbidden, Unauthenticated, Unavailable."""
    route = request.app[ROUTE_OF].get(request.match_info.handler)
    if route is not None and route.is_open:
        return await handler(request)
    if request.app[BROKER].settings.security == "insecure":
        reason = browser.refusal(request.headers)
        if reason:
            raise Forbidden(reason)
        note_caller(request, UNRESTRICTED)
        return await handler(request)
    certificate = request.get_extra_info("peercert")
    peer = request.remote or ""
    access = request.app[ACCESS]
    caller = await access.caller(certificate, request.headers.get("Authorization"), peer)
    note_caller(request, caller)
    if route is not None:  # otherwise there is no such path or method
        _check(request, route, caller)
    response = await handler(request)
    if access.is_to_close(certificate):
        response.force_close()
    return response


def check(request: web.Request, verb: Verb, namespace: str, name: str) -> None:
    """Check a verb on a topic that a body names.  Raises: Forbidden."""
    caller = caller_of(request)
    if not caller.may(verb, namespace, name):
        request.app[ACCESS].refuse(caller, verb, f"{namespace}/{name}", request.remote or "")


def _check(request: web.Request, route: ApiRoute[Any], caller: Caller) -> None:
    """Raises: Forbidden, naming the verb that is missing and the topic."""
    grants = caller.grants
    if grants is None:
        return
    namespace, name = request.match_info.get("namespace", ""), request.match_info.get("topic")
    missing = []
    for verb in route.verbs:
        if grants.may_some(verb) if name is None else grants.may(verb, namespace, name):
            if not route.needs_all:
                return
        else:
            missing.append(verb)
    if missing:
        topic = f"{namespace}/{name}" if name is not None else ""
        request.app[ACCESS].refuse(caller, missing[0], topic, request.remote or "")
