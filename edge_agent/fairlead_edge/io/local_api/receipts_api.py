"""``GET /v1/receipts/{id}``: where is a message that this node accepted?"""

from __future__ import annotations

from typing import Final

import msgspec
from aiohttp import web

from fairlead_edge.errors import StoreFailed
from fairlead_edge.io.local_api import operations
from fairlead_edge.io.local_api.bodies import requests
from fairlead_edge.io.local_api.callers import NO_TOKEN, ModuleAccess
from fairlead_edge.io.outbox.receipts import EdgeReceipts
from fairlead_edge.outbox.receipts import marks
from fairlead_wire.errors import Temporary

_NOT_KNOWN: Final = (
    "no message of this id is known here: it was not accepted, no route wanted it, it is another module's, it went to a"
    " module of this node, or it left longer ago than is remembered"
)
_encode = msgspec.json.encode


def add_routes(app: web.Application, receipts: EdgeReceipts, access: ModuleAccess | None = None) -> None:
    """Serve receipts on ``app``.  ``access``: where modules have own tokens, each asks for its own messages only."""

    async def receipt(request: web.Request) -> web.Response:
        text = request.match_info["id"]
        id = marks.id_of(text)
        if id is None and not marks.is_reserved(text):
            return _error(400, "bad_request", "id: 32 hex digits, as publishing answered it")
        try:
            asked = msgspec.convert(dict(request.query), requests.AskReceipt, strict=False)
        except ValueError as error:
            return _error(400, "bad_request", str(error))
        if not 0 <= asked.wait <= requests.RECEIPT_WAIT_SECONDS_MAX:
            return _error(400, "bad_request", f"wait: 0 to {requests.RECEIPT_WAIT_SECONDS_MAX:g} seconds")
        author = _author(request)
        try:
            found = id and await receipts.ask(id, author=author, wait_seconds=asked.wait, until=asked.until)
        except Temporary as error:
            response = _error(429, "too_many_receipts", str(error))
            response.headers["Retry-After"] = str(max(1, round(error.retry_after_seconds or 1)))
            return response
        except StoreFailed as error:
            return _error(503, "store_failed", str(error))
        if found is not None:
            return _json(_encode(found))
        since = await receipts.remembers_since()
        remembered = f"; what left is remembered since {since}" if since else ""
        return _error(404, "unknown_message", f"{_NOT_KNOWN}{remembered}")

    def _author(request: web.Request) -> bytes | None:
        """Whose messages may be asked for; None: all."""
        if access is None:
            return None
        caller = access.caller(request) or NO_TOKEN
        return None if caller.is_agent else marks.author(caller.module)

    operations.register(app, {operations.RECEIPT: receipt})


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


def _error(status: int, code: str, reason: str) -> web.Response:
    return _json(_encode({"error": {"code": code, "message": reason}}), status)
