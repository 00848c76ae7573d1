"""What all HTTP handlers share: bounded bodies, content types, and errors as JSON."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar

from aiohttp import web

from fairlead_messaging.api.errors import (
    BodyTooLarge,
    CertificateEnded,
    MessagingError,
    Refused,
    TooSlow,
    Unauthenticated,
    Unavailable,
)
from fairlead_messaging.api.headers import JSON, RETRY_AFTER
from fairlead_messaging.server import json_bodies
from fairlead_messaging.server.access import UNIDENTIFIED, Caller
from fairlead_messaging.server.io.access_control import AccessControl
from fairlead_messaging.server.io.broker import Broker
from fairlead_messaging.server.io.metrics import MessagingMetrics
from fairlead_messaging.server.io.pusher import Pusher
from fairlead_messaging.server.io.quota_keeper import QuotaKeeper
from fairlead_wire.errors import Malformed
from fairlead_wire.http.content_encoding import Unpacker
from fairlead_wire.io import logs
from fairlead_wire.io.spans import Spans

BROKER = web.AppKey("broker", Broker)
METRICS = web.AppKey("metrics", MessagingMetrics)
SPANS: web.AppKey[Spans | None] = web.AppKey("spans")
"""None if no spans are recorded."""
PUSHER = web.AppKey("pusher", Pusher)
QUOTAS = web.AppKey("quotas", QuotaKeeper)
ACCESS = web.AppKey("access", AccessControl)

SMALL_PAGE_BYTES = 16 * 1024
"""Pages up to this size are not counted: a connection keeps more in its buffers anyway."""

_body_bytes: ContextVar[int] = ContextVar("body_bytes", default=0)
"""How much of the budget for bodies the current request of this task has taken."""

_caller: ContextVar[tuple[web.Request | None, Caller]] = ContextVar("caller", default=(None, UNIDENTIFIED))
"""The caller of the current request of this task."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = logs.get("messaging.http")


def note_caller(request: web.Request, caller: Caller) -> None:
    """Remember the caller, once it is known."""
    _caller.set((request, caller))


def caller_of(request: web.Request) -> Caller:
    """The caller of a request; a caller without grants if it was not identified."""
    asked, caller = _caller.get()
    return caller if asked is request else UNIDENTIFIED


def json_response(value: object, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=json_bodies.encode(value), status=status, content_type=JSON, headers=headers)


async def body(request: web.Request) -> bytes:
    """Read the body, at most ``body_bytes_max`` even when unpacked; it counts until the request is answered.

    Raises: BodyTooLarge, TooSlow; Unavailable if all bodies together are too large; Refused if the body does not match
    its Content-Encoding.
    """
    broker = request.app[BROKER]
    size_max, seconds_max = broker.settings.body_bytes_max, broker.settings.request_seconds_max
    chunks: list[bytes] = []
    size = 0

    def take(chunk: bytes) -> None:
        nonlocal size
        for piece in unpacker.feed(chunk):
            size += len(piece)
            if size > size_max:
                raise _too_large(size_max)
            # Count what has arrived, not what was announced: a client that announces much and sends nothing must not
            # use up the budget.
            broker.bodies.take(len(piece))
            _body_bytes.set(size)
            chunks.append(piece)

    try:
        unpacker = Unpacker(request.headers.get("Content-Encoding", ""))
        if (request.content_length or 0) > size_max:
            raise _too_large(size_max)
        if request.content.is_eof():  # the whole body came with the head, as usual: no timeout is needed
            take(request.content.read_nowait())
        else:
            async with asyncio.timeout(seconds_max):
                async for chunk in request.content.iter_any():
                    take(chunk)
        unpacker.end()
        return b"".join(chunks)
    except TimeoutError:
        raise TooSlow(f"the body did not arrive within {seconds_max:g} s") from None
    except (Malformed, web.RequestPayloadError) as error:
        raise Refused(f"body cannot be unpacked: {error}", code="bad_body") from None


def count_decoded(request: web.Request, size: int) -> None:
    """Count the memory of a decoded body until the request is answered.

    Raises: Unavailable if all bodies together are too large.
    """
    request.app[BROKER].bodies.take(size)
    _body_bytes.set(_body_bytes.get() + size)


def _too_large(size_max: int) -> BodyTooLarge:
    return BodyTooLarge(f"a request body may have {size_max} bytes", code="body_too_large")


async def send(
    request: web.Request, parts: Sequence[bytes | memoryview], content_type: str, headers: dict[str, str]
) -> web.StreamResponse:
    """Send a page, which counts until the reader has taken it, within ``request_seconds_max``."""
    broker = request.app[BROKER]
    size = sum(map(len, parts))
    headers = {"Content-Type": content_type, **headers}
    if size <= SMALL_PAGE_BYTES:
        return web.Response(body=b"".join(parts), headers=headers)
    response = web.StreamResponse(headers=headers)
    response.content_length = size
    broker.pages.add(size)
    try:
        async with asyncio.timeout(broker.settings.request_seconds_max):
            await response.prepare(request)
            for part in parts:
                await response.write(part)
            await response.write_eof()
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("the reader took too long") from None
    finally:
        broker.pages.release(size)
    return response


def check_content_type(request: web.Request, *allowed: str) -> str:
    """The content type of the body, JSON by default.

    Raises: Refused if it is not among ``allowed``.
    """
    if request.content_type in allowed:
        return request.content_type
    if "Content-Type" not in request.headers or not request.can_read_body:
        return JSON
    raise Refused(f"Content-Type must be {' or '.join(allowed)}", code="bad_content_type")


def error_response(error: MessagingError) -> web.Response:
    headers = {}
    if isinstance(error, Unavailable):
        headers[RETRY_AFTER] = str(max(1, math.ceil(error.retry_after_seconds)))
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    response = json_response(
        {"error": {"code": error.code, "message": error.message, **error.facts}}, status=error.status, headers=headers
    )
    if isinstance(error, CertificateEnded):
        response.force_close()
    return response


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    _body_bytes.set(0)  # the task answers all requests of a connection
    try:
        return await handler(request)
    except MessagingError as error:
        request.app[METRICS].refused.labels(error.code).inc()
        return error_response(error)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        code = {404: "no_such_path", 405: "method_not_allowed", 413: "body_too_large"}.get(error.status, "http_error")
        request.app[METRICS].refused.labels(code).inc()
        headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
        return json_response(
            {"error": {"code": code, "message": error.reason or code}}, status=error.status, headers=headers
        )
    except (ConnectionError, TimeoutError):
        raise
    except Exception:  # noqa: BLE001 - log the traceback of any defect, but do not send it
        _log.exception("request_failed", path=request.path, method=request.method)
        return json_response({"error": {"code": "internal", "message": "internal error"}}, status=500)
    finally:
        request.app[BROKER].bodies.release(_body_bytes.get())
