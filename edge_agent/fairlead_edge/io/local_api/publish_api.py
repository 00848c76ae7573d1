"""The local API's upstream part: publish, brokered endpoints, dead letters (contract section 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web

from fairlead_edge import ascii_case
from fairlead_edge.errors import KeyReused, Moving, StoreFailed, StoreFull
from fairlead_edge.io.local_api import operations
from fairlead_edge.io.local_api.bodies import requests
from fairlead_edge.io.local_api.callers import NO_TOKEN, LocalCaller, ModuleAccess
from fairlead_edge.io.outbox.broker import TAKE_MESSAGES_MAX, WAIT_SECONDS_MAX
from fairlead_edge.io.outbox.upstream import UpstreamService
from fairlead_edge.outbox import authorship, envelope, outbox, publishing
from fairlead_edge.outbox.authorship import ANY_PROGRAM, Author
from fairlead_edge.outbox.brokered.endpoint import LEASE_SECONDS_MAX, LEASE_SECONDS_MIN, Leased
from fairlead_edge.outbox.queues import base
from fairlead_edge.waiting_places import NoPlace, WaitingPlaces
from fairlead_wire.errors import Malformed, Temporary
from fairlead_wire.http.content_encoding import Unpacker
from fairlead_wire.traces.trace import TRACEPARENT

SMALL_BYTES_MAX: Final = 1024 * 1024
"""Bodies that only carry ids."""
BODY_SECONDS_MAX: Final = 30.0
"""A client that sends its body byte by byte holds its connection no longer."""
WAITING_MAX: Final = 128
"""Clients that may wait for messages at once; modules with tokens share them (``WaitingPlaces``)."""

_STATUS: Final = {"too_large": 413, authorship.FORBIDDEN: 403}
"""Of a request of which not one message was accepted, by the first reason; else 400."""

Model = TypeVar("Model", bound=msgspec.Struct)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_encode = msgspec.json.encode


def add_routes(app: web.Application, upstream: UpstreamService, access: ModuleAccess | None = None) -> None:
    """Serve the upstream paths of contract section 6 on ``app``.  ``access``: where modules have own tokens."""
    handlers = _Handlers(upstream, access)
    operations.register(
        app,
        {
            operations.PUBLISH: _answering(handlers.publish),
            operations.TAKE: _answering(handlers.take),
            **{each: _answering(handlers.ack) for each in operations.ACKS},
            **{each: _answering(handlers.abandon) for each in operations.ABANDONS},
            operations.DEAD_LETTERS: _answering(handlers.dead_letters),
            operations.REPLAY: _answering(handlers.replay),
            operations.DISCARD: _answering(handlers.discard),
        },
    )


def _answering(handler: Handler) -> Handler:
    """What the store cannot do just now, or any more, as an answer."""

    async def answering(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except Moving as error:
            return _error(503, "moving", str(error), error.retry_after_seconds)
        except Temporary as error:
            return _error(503, "not_now", str(error), error.retry_after_seconds)
        except StoreFailed as error:
            return _error(503, "store_failed", str(error))

    return answering


class _Handlers:
    def __init__(self, upstream: UpstreamService, access: ModuleAccess | None) -> None:
        self._upstream = upstream
        self._access = access
        self._places = WaitingPlaces(WAITING_MAX, has_names=access is not None)

    async def publish(self, request: web.Request) -> web.Response:
        try:
            content = await read_body(request, publishing.REQUEST_BYTES_MAX)
            key = request.headers.get("Idempotency-Key")
            author, headers = self._author(request), request.headers
            answer = await self._upstream.publisher.publish(content, key, author, headers=headers)
        except (publishing.RequestRefused, KeyReused) as error:
            return _error(413 if error.code == "too_large" else 400, error.code, str(error))
        except StoreFull as error:
            return _error(507, "store_full", str(error), error.retry_after_seconds)
        response = _json(answer.body, 200 if answer.refusal is None else _STATUS.get(answer.refusal.code, 400))
        if answer.trace is not None:
            response.headers[TRACEPARENT] = str(answer.trace)
        return response

    def _author(self, request: web.Request) -> Author:
        if self._access is None:
            return ANY_PROGRAM
        module = self._caller(request).module
        return Author(module=module, node=self._upstream.node, has_token=self._access.has_token)

    def _caller(self, request: web.Request) -> LocalCaller:
        """A stranger was refused before."""
        return (self._access.caller(request) if self._access is not None else None) or NO_TOKEN

    def _not_its_input(self, request: web.Request) -> web.Response | None:
        """Where modules have tokens, the messages for a module are its own alone."""
        if self._access is None:
            return None
        caller, module = self._caller(request), request.match_info["module"]
        if ascii_case.same(caller.module, module):
            return None
        return _not_allowed(caller, f"messages for module {module} need that module's own token")

    def _not_the_agents(self, request: web.Request) -> web.Response | None:
        """Dead letters are messages of all modules."""
        caller = self._caller(request)
        if self._access is None or caller.is_agent:
            return None
        return _not_allowed(caller, "dead letters need the token in the agent's data folder")

    async def take(self, request: web.Request) -> web.Response:
        if (refused := self._not_its_input(request)) is not None:
            return refused
        try:
            asked = _query(request, requests.Take)
        except ValueError as error:
            return _error(400, "bad_request", str(error))
        if (
            not 1 <= asked.max <= TAKE_MESSAGES_MAX
            or not 0 <= asked.wait <= WAIT_SECONDS_MAX
            or not LEASE_SECONDS_MIN <= asked.lease <= LEASE_SECONDS_MAX
        ):
            lease = f"lease: {LEASE_SECONDS_MIN:g} to {LEASE_SECONDS_MAX:g} seconds"
            reason = f"max: 1 to {TAKE_MESSAGES_MAX}; wait: 0 to {WAIT_SECONDS_MAX:g} seconds; {lease}"
            return _error(400, "bad_request", reason)
        try:
            with self._places.held_by(ascii_case.folded(self._caller(request).module)):
                taken = await self._taken(request, asked, asked.wait)
        except NoPlace:  # one too many does not wait: it gets what is there, and its connection is free again
            taken = await self._taken(request, asked, 0.0)
        if request.transport is None or request.transport.is_closing():
            await self._upstream.broker.withdraw(self._endpoint(request), taken)
            return _json(b"{}")  # the module is gone; nothing of this is sent
        messages = [
            {**_view(leased.message), "priority": leased.priority, "attempt": leased.attempt} for leased in taken
        ]
        return _json(_encode({"messages": messages}))

    async def _taken(self, request: web.Request, asked: requests.Take, wait_seconds: float) -> list[Leased]:
        return await self._upstream.broker.take(
            self._endpoint(request), messages_max=asked.max, wait_seconds=wait_seconds, lease_seconds=asked.lease
        )

    async def ack(self, request: web.Request) -> web.Response:
        if (refused := self._not_its_input(request)) is not None:
            return refused
        try:
            ids = await _ids(request)
            unknown = await self._upstream.broker.ack(self._endpoint(request), ids)
        except publishing.RequestRefused as error:
            return _error(413 if error.too_large else 400, error.code, str(error))
        return _json(_encode({"acked": len(ids) - len(unknown), "unknown": unknown}))

    async def abandon(self, request: web.Request) -> web.Response:
        if (refused := self._not_its_input(request)) is not None:
            return refused
        try:
            ids = await _ids(request)
        except publishing.RequestRefused as error:
            return _error(413 if error.too_large else 400, error.code, str(error))
        unknown = await self._upstream.broker.abandon(self._endpoint(request), ids)
        return _json(_encode({"abandoned": len(ids) - len(unknown), "unknown": unknown}))

    async def dead_letters(self, request: web.Request) -> web.Response:
        if (refused := self._not_the_agents(request)) is not None:
            return refused
        try:
            page = _query(request, requests.DeadLetterPage)
        except ValueError as error:
            return _error(400, "bad_request", str(error))
        if not 1 <= page.limit <= outbox.DEAD_LETTER_PAGE_MAX:
            return _error(400, "bad_request", f"limit: 1 to {outbox.DEAD_LETTER_PAGE_MAX}")
        letters = await self._upstream.outbox.dead_letters(after=page.after, limit=page.limit)
        return _json(
            _encode(
                {
                    "deadLetters": [_letter_view(letter) for letter in letters],
                    "next": letters[-1].number if len(letters) == page.limit else None,
                }
            )
        )

    async def replay(self, request: web.Request) -> web.Response:
        if (refused := self._not_the_agents(request)) is not None:
            return refused
        try:
            content = await read_body(request, SMALL_BYTES_MAX)
            numbers = _decode(content or b"{}", requests.Replay).numbers
            replayed = await self._upstream.replay(numbers)
        except publishing.RequestRefused as error:
            return _error(413 if error.too_large else 400, error.code, str(error))
        except StoreFull as error:
            return _error(507, "store_full", str(error), error.retry_after_seconds)
        return _json(_encode({"replayed": replayed}))

    async def discard(self, request: web.Request) -> web.Response:
        if (refused := self._not_the_agents(request)) is not None:
            return refused
        try:
            numbers = _decode(await read_body(request, SMALL_BYTES_MAX), requests.Discard).numbers
            discarded = await self._upstream.discard(numbers)
        except publishing.RequestRefused as error:
            return _error(413 if error.too_large else 400, error.code, str(error))
        except StoreFull as error:
            return _error(507, "store_full", str(error), error.retry_after_seconds)
        return _json(_encode({"discarded": discarded}))

    def _endpoint(self, request: web.Request) -> str:
        return f"{self._upstream.node}/{request.match_info['module']}/{request.match_info['input']}"


def _not_allowed(caller: LocalCaller, reason: str) -> web.Response:
    if caller != NO_TOKEN:
        return _error(403, "forbidden", reason)
    response = _error(401, "unauthorized", f"{reason}: Authorization: Bearer …")
    response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _view(message: envelope.StoredMessage) -> dict[str, Any]:
    """A message as the local API shows it, named as it was published."""
    view: dict[str, Any] = msgspec.to_builtins(message, builtin_types=(msgspec.Raw,))
    return view


def _letter_view(letter: outbox.DeadLetter) -> dict[str, Any]:
    return {
        "number": letter.number,
        "endpoint": letter.queue.endpoint,
        "priority": base(letter.queue.priority),
        "stream": str(letter.queue),
        "epoch": letter.epoch,
        "sequence": letter.offset,
        "topic": letter.topic,
        "at": letter.at,
        "code": letter.code,
        "reason": letter.reason,
        "message": _view(envelope.read(letter.content)),
    }


async def _ids(request: web.Request) -> list[str]:
    return _decode(await read_body(request, SMALL_BYTES_MAX), requests.Ids).ids


async def read_body(request: web.Request, limit: int) -> bytes:
    """The body, never more than ``limit`` of it in memory, however long it says it is, unpacks to or takes."""
    parts: list[bytes] = []
    size = 0
    try:
        unpacker = Unpacker(request.headers.get("Content-Encoding", ""))
        async with asyncio.timeout(BODY_SECONDS_MAX):
            async for part in request.content.iter_any():
                for piece in unpacker.feed(part):
                    size += len(piece)
                    if size > limit:
                        raise publishing.RequestRefused(f"the request is over {limit} bytes", code="too_large")
                    parts.append(piece)
        unpacker.end()
    except TimeoutError:
        raise publishing.RequestRefused(
            f"the request was not complete within {BODY_SECONDS_MAX:g} s", code="too_slow"
        ) from None
    except (Malformed, web.RequestPayloadError) as error:
        raise publishing.RequestRefused(f"the request cannot be unpacked: {error}", code="bad_request") from None
    return b"".join(parts)


def _decode(content: bytes, model: type[Model]) -> Model:
    try:
        return msgspec.json.decode(content, type=model)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise publishing.RequestRefused(str(error), code="bad_request") from None


def _query(request: web.Request, model: type[Model]) -> Model:
    return msgspec.convert(dict(request.query), model, strict=False)


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


def _error(status: int, code: str, reason: str, retry_after_seconds: float | None = None) -> web.Response:
    response = _json(_encode({"error": {"code": code, "message": reason}}), status)
    if retry_after_seconds is not None:
        response.headers["Retry-After"] = str(max(1, round(retry_after_seconds)))
    return response
