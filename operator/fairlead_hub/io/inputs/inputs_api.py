"""The HTTP API for messages to modules: the only part of the hub's HTTP that changes anything."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from fairlead_hub import http_operations
from fairlead_hub.hub import Hub
from fairlead_hub.inputs import submission
from fairlead_hub.inputs.submission import Address
from fairlead_hub.io.inputs.access_review import AccessDenied, AccessReview, Requester, Verb
from fairlead_hub.io.inputs.inputs import InputService, NotNow
from fairlead_wire import message
from fairlead_wire.errors import Malformed, Permanent, RemoteError, Temporary
from fairlead_wire.http.content_encoding import Unpacker
from fairlead_wire.io import tls
from fairlead_wire.objects import api_group

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
BODY_SECONDS_MAX = 30.0
WAIT_SECONDS_MAX = 60.0
_BEARER = "bearer "
_ID = re.compile(rf"[0-9a-f]{{{submission.ID_CHARS}}}\Z")
_UNTIL = {
    "delivered": frozenset(("delivered",)),
    "consumed": frozenset[str](),
}


class InputsApi:
    """Call ``serves`` once this hub is the one that serves nodes."""

    def __init__(self, hub: Hub, access: AccessReview) -> None:
        self._hub, self._access = hub, access
        self._inputs: InputService | None = None

    def serves(self, inputs: InputService | None) -> None:
        """Accept messages from now on; None: no longer."""
        self._inputs = inputs

    def add_to(self, app: web.Application) -> None:
        app.router.add_post(http_operations.SEND_INPUT.path, self._answering(self._send))
        app.router.add_get(http_operations.INPUT_STATE.path, self._answering(self._state), allow_head=False)

    def _answering(self, handler: Handler) -> Handler:
        async def answering(request: web.Request) -> web.StreamResponse:
            try:
                return await handler(request)
            except AccessDenied as error:
                return _error(error.status, error.code, str(error), 5.0 if error.status == 503 else None)
            except submission.InputRefused as error:
                return _error(413 if error.code == "too_large" else 400, error.code, str(error))
            except NotNow as error:
                again = None if error.status == 409 else error.retry_after_seconds
                return _error(error.status, error.code, str(error), again)
            except Temporary as error:
                return _error(503, "messaging_unavailable", str(error), error.retry_after_seconds or 1.0)
            except (Permanent, RemoteError) as error:
                return _error(503, "messaging_refuses", str(error), 5.0)

        return answering

    async def _send(self, request: web.Request) -> web.StreamResponse:
        inputs, to = await self._admitted(request, "create")
        ttl = _ttl(request.query.get("ttl"))
        messages = submission.parse(await _read(request))
        found = await inputs.send(to, messages, ttl=ttl, key=request.headers.get("Idempotency-Key"))
        status = 202 if any(each.state == "accepted" for each in found) else 200
        answer = http_operations.Sent(id=found[0].id, state=found[0].state, results=found)
        return _json(answer, status)

    async def _state(self, request: web.Request) -> web.StreamResponse:
        inputs, to = await self._admitted(request, "get")
        wait = _number(request.query.get("wait", "0"))
        until = _UNTIL.get(request.query.get("until", "consumed"))
        if wait is None or not 0 <= wait <= WAIT_SECONDS_MAX or until is None:
            raise submission.InputRefused(
                f"wait: 0 to {WAIT_SECONDS_MAX:g} seconds; until: delivered or consumed", code="bad_request"
            )
        id = request.match_info["id"]
        if not _ID.match(id):  # a node ends the session of a hub that asks for an invalid id
            return _error(404, "no_message", f"no message has the id {id[:64]!r}")
        found = await inputs.state(to.node, id, until=until, wait_seconds=wait)
        if found is None:
            return _error(404, "no_message", f"message {id} of node {to.node} is unknown (or no longer known)")
        return _json(found)

    async def _admitted(self, request: web.Request, verb: Verb) -> tuple[InputService, Address]:
        """Raises ``AccessDenied``, ``InputRefused``, ``NotNow``."""
        if "Origin" in request.headers or request.headers.get("Sec-Fetch-Site", "none") != "none":
            raise AccessDenied(403, "forbidden", "browser pages may not send to modules; other programs may")
        node = request.match_info["node"]
        await self._access.check(_caller(request), verb, node)
        if self._inputs is None or not self._hub.view.nodes_known:
            raise NotNow("starting", "this hub does not serve nodes yet, or no longer", retry_after_seconds=1.0)
        if node not in self._hub.view.edge_nodes:
            raise AccessDenied(404, "no_node", api_group.no_edge_node(node))
        uid = self._hub.view.node_uid(node)
        module, input = request.match_info["module"], request.match_info["input"]
        submission.check_names(module, input)
        return self._inputs, Address(node=node, uid=uid, module=module, input=input)


def _caller(request: web.Request) -> Requester:
    shown = request.headers.get("Authorization", "")
    if shown.lower().startswith(_BEARER):
        return Requester(token=shown[len(_BEARER) :].strip())
    return Requester(certificate=tls.peer_name(request.get_extra_info("peercert")) or "")


def _ttl(text: str | None) -> float:
    if text is None:
        return submission.TTL_SECONDS_DEFAULT
    found = _number(text)
    if found is None or not 0 < found <= message.INPUT_TTL_SECONDS_MAX:
        reason = f"ttl: seconds above 0, at most {message.INPUT_TTL_SECONDS_MAX}, is {text[:40]!r}"
        raise submission.InputRefused(reason, code="bad_ttl")
    return found


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


async def _read(request: web.Request) -> bytes:
    """Raises ``InputRefused`` if the request is too large or too slow."""
    too_large = submission.InputRefused(f"the request exceeds {submission.REQUEST_BYTES_MAX} bytes", code="too_large")
    if request.content_length is not None and request.content_length > submission.REQUEST_BYTES_MAX:
        raise too_large
    parts: list[bytes] = []
    size = 0
    try:
        unpacker = Unpacker(request.headers.get("Content-Encoding", ""))
        async with asyncio.timeout(BODY_SECONDS_MAX):
            async for part in request.content.iter_any():
                for piece in unpacker.feed(part):
                    size += len(piece)
                    if size > submission.REQUEST_BYTES_MAX:
                        raise too_large
                    parts.append(piece)
        unpacker.end()
    except TimeoutError:
        raise submission.InputRefused(f"the body took longer than {BODY_SECONDS_MAX:g} s", code="too_slow") from None
    except (Malformed, web.RequestPayloadError) as error:
        raise submission.InputRefused(f"the request cannot be decompressed: {error}", code="bad_request") from None
    return b"".join(parts)


def _json(value: msgspec.Struct, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")


def _error(status: int, code: str, text: str, retry_after_seconds: float | None = None) -> web.Response:
    body = msgspec.json.encode({"error": {"code": code, "message": text}})
    response = web.Response(body=body, status=status, content_type="application/json")
    if retry_after_seconds is not None:
        response.headers["Retry-After"] = str(max(1, math.ceil(retry_after_seconds)))
    return response
