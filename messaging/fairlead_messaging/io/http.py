"""What all HTTP handlers share: bounded bodies, content types, and errors as JSON."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

from aiohttp import web

from fairlead_messaging import bodies
from fairlead_messaging.errors import MessagingError, Refused, TooLarge, Unavailable
from fairlead_messaging.io.broker import Broker
from fairlead_messaging.io.metrics import Metrics
from fairlead_messaging.io.pusher import Pusher
from fairlead_wire.io import logs

BROKER = web.AppKey("broker", Broker)
METRICS = web.AppKey("metrics", Metrics)
PUSHER = web.AppKey("pusher", Pusher)

JSON = "application/json"
NEXT_POSITION = "Fairlead-Next-Position"
GENERATION = "Fairlead-Generation"
STABLE_POSITION = "Fairlead-Stable-Position"
OLDEST_POSITION = "Fairlead-Oldest-Position"
SERVICE = "Fairlead-Service"
HIDDEN_MESSAGES = "Fairlead-Hidden-Messages"
EXPIRED_MESSAGES = "Fairlead-Expired-Messages"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = logs.get("messaging.http")


def json_response(value: object, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=bodies.encode(value), status=status, content_type=JSON, headers=headers)


async def body(request: web.Request) -> bytes:
    """The whole body, never more than ``body_bytes_max``, also once it is unpacked.

    Raises: TooLarge, Refused when it is not what its Content-Encoding says.
    """
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise TooLarge(
            f"a request body may have {request.app[BROKER].settings.body_bytes_max} bytes", code="body_too_large"
        ) from None
    except web.RequestPayloadError:
        raise Refused("body cannot be unpacked: it is not what its Content-Encoding says", code="bad_body") from None


def check_content_type(request: web.Request, *allowed: str) -> str:
    """The content type, JSON when none was given or there is no body.

    Raises: Refused for any other.
    """
    if request.content_type in allowed:
        return request.content_type
    if "Content-Type" not in request.headers or not request.can_read_body:
        return JSON
    raise Refused(f"Content-Type must be {' or '.join(allowed)}", code="bad_content_type")


def error_response(error: MessagingError) -> web.Response:
    headers = {}
    if isinstance(error, Unavailable):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_seconds)))
    return json_response(
        {"error": {"code": error.code, "message": error.message, **error.facts}}, status=error.status, headers=headers
    )


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
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
    except Exception:  # noqa: BLE001 - the last line of defence: logged with its traceback, told without it
        _log.exception("request_failed", path=request.path, method=request.method)
        return json_response({"error": {"code": "internal", "message": "internal error"}}, status=500)
