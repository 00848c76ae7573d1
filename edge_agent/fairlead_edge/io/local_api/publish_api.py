"""The local API for messages: publish, receipts, brokered endpoints, dead letters (contract section 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web

from fairlead_edge import ascii_case
from fairlead_edge.errors import KeyReused, Moving, StoreFailed, StoreFull
from fairlead_edge.io.local_api import bodies, operations, responses
from fairlead_edge.io.local_api.access import NO_TOKEN, AccessGuard, LocalCaller
from fairlead_edge.io.local_api.responses import encoded, respond
from fairlead_edge.io.outbox.broker import TAKE_MESSAGES_MAX, WAIT_SECONDS_MAX
from fairlead_edge.io.outbox.upstream import UpstreamService
from fairlead_edge.outbox import authorship, envelope, outbox, publishing
from fairlead_edge.outbox.authorship import ANY_PROGRAM, Author
from fairlead_edge.outbox.brokered.endpoint import LEASE_SECONDS_MAX, LEASE_SECONDS_MIN, Leased
from fairlead_edge.outbox.queues import base
from fairlead_edge.outbox.receipts import marks
from fairlead_edge.waiting_places import NoPlace, WaitingPlaces
from fairlead_wire.errors import Malformed, Temporary
from fairlead_wire.http.content_encoding import Unpacker
from fairlead_wire.traces.trace import TRACEPARENT
from fairlead_wire.validation import json_body

SMALL_BYTES_MAX: Final = 1024 * 1024
"""The limit for bodies that only carry ids."""
BODY_SECONDS_MAX: Final = 30.0
"""The timeout for a body, so that a slow client does not hold its connection."""
WAITING_MAX: Final = 128
"""How many clients may wait for messages at once; modules with tokens share these places (``WaitingPlaces``)."""

_STATUS: Final = {"too_large": 413, authorship.FORBIDDEN: 403}
"""HTTP status of a request without any accepted message, by the code of the first refusal; else 400."""

_NOT_KNOWN: Final = (
    "this node knows no message with this id: it was not accepted, no route matched it, it belongs to another module,"
    " it went to a module of this node, or it left too long ago"
)

Model = TypeVar("Model", bound=msgspec.Struct)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def add_routes(app: web.Application, upstream: UpstreamService, access: AccessGuard | None = None) -> None:
    """Serve the paths of contract section 6 on ``app``.  ``access`` is given if modules have tokens."""
    handlers = _Handlers(upstream, access)
    operations.register(
        app,
        {
            operations.PUBLISH: _answering(handlers.publish),
            operations.TAKE: _answering(handlers.take),
            **{each: _answering(handlers.ack) for each in operations.ACKS},
            **{each: _answering(handlers.abandon) for each in operations.ABANDONS},
            operations.RECEIPT: _answering(handlers.receipt),
            operations.DEAD_LETTERS: _answering(handlers.dead_letters),
            operations.REPLAY: _answering(handlers.replay),
            operations.DISCARD: _answering(handlers.discard),
        },
    )


def _answering(handler: Handler) -> Handler:
    """Turn errors that any handler may raise into responses."""

    async def answering(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except (publishing.RequestRefused, KeyReused) as error:
            return responses.error(413 if error.code == "too_large" else 400, error.code, str(error))
        except Moving as error:
            return responses.error(503, "moving", str(error), retry_after_seconds=error.retry_after_seconds)
        except Temporary as error:
            return responses.error(503, "not_now", str(error), retry_after_seconds=error.retry_after_seconds)
        except StoreFailed as error:
            return responses.error(503, "store_failed", str(error))

    return answering


class _Handlers:
    def __init__(self, upstream: UpstreamService, access: AccessGuard | None) -> None:
        self._upstream = upstream
        self._access = access
        self._places = WaitingPlaces(WAITING_MAX, has_names=access is not None)

    async def publish(self, request: web.Request) -> web.Response:
        content = await read_body(request, publishing.REQUEST_BYTES_MAX)
        key, author, headers = request.headers.get("Idempotency-Key"), self._author(request), request.headers
        try:
            answer = await self._upstream.publisher.publish(content, key, author, headers=headers)
        except StoreFull as error:
            return responses.error(507, "store_full", str(error), retry_after_seconds=error.retry_after_seconds)
        response = encoded(answer.body, 200 if answer.refusal is None else _STATUS.get(answer.refusal.code, 400))
        if answer.trace is not None:
            response.headers[TRACEPARENT] = str(answer.trace)
        return response

    def _author(self, request: web.Request) -> Author:
        if self._access is None:
            return ANY_PROGRAM
        module = self._caller(request).module
        return Author(module=module, node=self._upstream.node, has_token=self._access.has_token)

    def _caller(self, request: web.Request) -> LocalCaller:
        """The sender; unknown tokens were refused before."""
        return (self._access.caller(request) if self._access is not None else None) or NO_TOKEN

    def _not_its_input(self, request: web.Request) -> web.Response | None:
        """Refuse everyone except the module itself, if modules have tokens."""
        if self._access is None:
            return None
        caller, module = self._caller(request), request.match_info["module"]
        if ascii_case.same(caller.module, module):
            return None
        return _not_allowed(caller, f"messages for module {module} need that module's token")

    def _not_the_agents(self, request: web.Request) -> web.Response | None:
        """Refuse everyone except the agent's token, because dead letters are messages of all modules."""
        caller = self._caller(request)
        if self._access is None or caller.is_agent:
            return None
        return _not_allowed(caller, "dead letters need the token from the agent's data folder")

    async def receipt(self, request: web.Request) -> web.Response:
        text = request.match_info["id"]
        id = marks.id_of(text)
        if id is None and not marks.is_reserved(text):
            return responses.error(400, "bad_request", "id: 32 hex digits, from the response to publishing")
        try:
            asked = _query(request, bodies.AskReceipt)
        except ValueError as refused:
            return responses.error(400, "bad_request", str(refused))
        if not 0 <= asked.wait <= bodies.RECEIPT_WAIT_SECONDS_MAX:
            return responses.error(400, "bad_request", f"wait: 0 to {bodies.RECEIPT_WAIT_SECONDS_MAX:g} seconds")
        receipts, author = self._upstream.receipts, self._whose_receipts(request)
        try:
            found = id and await receipts.ask(id, author=author, wait_seconds=asked.wait, until=asked.until)
        except Temporary as busy:
            seconds = busy.retry_after_seconds or 1
            return responses.error(429, "too_many_receipts", str(busy), retry_after_seconds=seconds)
        if found is not None:
            return respond(found)
        since = await receipts.remembers_since()
        remembered = f"; messages that left are remembered since {since}" if since else ""
        return responses.error(404, "unknown_message", f"{_NOT_KNOWN}{remembered}")

    def _whose_receipts(self, request: web.Request) -> bytes | None:
        """The author whose receipts may be read; None: all."""
        caller = self._caller(request)
        return None if self._access is None or caller.is_agent else marks.author(caller.module)

    async def take(self, request: web.Request) -> web.Response:
        if (refused := self._not_its_input(request)) is not None:
            return refused
        try:
            asked = _query(request, bodies.Take)
        except ValueError as error:
            return responses.error(400, "bad_request", str(error))
        if (
            not 1 <= asked.max <= TAKE_MESSAGES_MAX
            or not 0 <= asked.wait <= WAIT_SECONDS_MAX
            or not LEASE_SECONDS_MIN <= asked.lease <= LEASE_SECONDS_MAX
        ):
            lease = f"lease: {LEASE_SECONDS_MIN:g} to {LEASE_SECONDS_MAX:g} seconds"
            reason = f"max: 1 to {TAKE_MESSAGES_MAX}; wait: 0 to {WAIT_SECONDS_MAX:g} seconds; {lease}"
            return responses.error(400, "bad_request", reason)
        try:
            with self._places.held_by(ascii_case.folded(self._caller(request).module)):
                taken = await self._taken(request, asked, asked.wait)
        except NoPlace:  # too many are waiting: return what is there now, to free the connection
            taken = await self._taken(request, asked, 0.0)
        if request.transport is None or request.transport.is_closing():
            await self._upstream.broker.withdraw(self._endpoint(request), taken)
            return respond({})  # the client is gone and will not receive this
        messages = [
            {**_view(leased.message), "priority": leased.priority, "attempt": leased.attempt} for leased in taken
        ]
        return respond({"messages": messages})

    async def _taken(self, request: web.Request, asked: bodies.Take, wait_seconds: float) -> list[Leased]:
        return await self._upstream.broker.take(
            self._endpoint(request), messages_max=asked.max, wait_seconds=wait_seconds, lease_seconds=asked.lease
        )

    async def ack(self, request: web.Request) -> web.Response:
        if (refused := self._not_its_input(request)) is not None:
            return refused
        ids = await _ids(request)
        unknown = await self._upstream.broker.ack(self._endpoint(request), ids)
        return respond({"acked": len(ids) - len(unknown), "unknown": unknown})

    async def abandon(self, request: web.Request) -> web.Response:
        if (refused := self._not_its_input(request)) is not None:
            return refused
        ids = await _ids(request)
        unknown = await self._upstream.broker.abandon(self._endpoint(request), ids)
        return respond({"abandoned": len(ids) - len(unknown), "unknown": unknown})

    async def dead_letters(self, request: web.Request) -> web.Response:
        if (refused := self._not_the_agents(request)) is not None:
            return refused
        try:
            page = _query(request, bodies.DeadLetterPage)
        except ValueError as error:
            return responses.error(400, "bad_request", str(error))
        if not 1 <= page.limit <= outbox.DEAD_LETTER_PAGE_MAX:
            return responses.error(400, "bad_request", f"limit: 1 to {outbox.DEAD_LETTER_PAGE_MAX}")
        letters = await self._upstream.outbox.dead_letters(after=page.after, limit=page.limit)
        following = letters[-1].number if len(letters) == page.limit else None
        return respond({"deadLetters": [_letter_view(letter) for letter in letters], "next": following})

    async def replay(self, request: web.Request) -> web.Response:
        if (refused := self._not_the_agents(request)) is not None:
            return refused
        content = await read_body(request, SMALL_BYTES_MAX)
        numbers = _decode(content or b"{}", bodies.Replay).numbers
        try:
            replayed = await self._upstream.replay(numbers)
        except StoreFull as error:
            return responses.error(507, "store_full", str(error), retry_after_seconds=error.retry_after_seconds)
        return respond({"replayed": replayed})

    async def discard(self, request: web.Request) -> web.Response:
        if (refused := self._not_the_agents(request)) is not None:
            return refused
        numbers = _decode(await read_body(request, SMALL_BYTES_MAX), bodies.Discard).numbers
        try:
            discarded = await self._upstream.discard(numbers)
        except StoreFull as error:
            return responses.error(507, "store_full", str(error), retry_after_seconds=error.retry_after_seconds)
        return respond({"discarded": discarded})

    def _endpoint(self, request: web.Request) -> str:
        return f"{self._upstream.node}/{request.match_info['module']}/{request.match_info['input']}"


def _not_allowed(caller: LocalCaller, reason: str) -> web.Response:
    if caller != NO_TOKEN:
        return responses.error(403, "forbidden", reason)
    headers = {"WWW-Authenticate": "Bearer"}
    return responses.error(401, "unauthorized", f"{reason}: Authorization: Bearer …", headers=headers)


def _view(message: envelope.StoredMessage) -> dict[str, Any]:
    """A message in the form of the local API, with the field names of publishing."""
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
    return _decode(await read_body(request, SMALL_BYTES_MAX), bodies.Ids).ids


async def read_body(request: web.Request, limit: int) -> bytes:
    """The unpacked body; at most ``limit`` bytes are held in memory, whatever the headers say."""
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
        reason = json_body.reason_of(content, model, error)
        raise publishing.RequestRefused(reason, code="bad_request") from None


def _query(request: web.Request, model: type[Model]) -> Model:
    return msgspec.convert(dict(request.query), model, strict=False)
