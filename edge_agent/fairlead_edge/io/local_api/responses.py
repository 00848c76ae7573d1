"""Responses of the local API: JSON, and errors in the form that its clients expect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from fairlead_edge.objects.presentation import api_requests
from fairlead_edge.objects.presentation.api_requests import ApiError


def encoded(body: bytes, code: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """A JSON response with an encoded body."""
    return web.Response(body=body, status=code, content_type="application/json", headers=headers)


def respond(document: Any, *, code: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """A JSON response."""
    return encoded(msgspec.json.encode(document), code, headers)


def error(
    status: int,
    code: str,
    reason: str,
    *,
    retry_after_seconds: float | None = None,
    headers: Mapping[str, str] | None = None,
    path: str = "",
) -> web.Response:
    """An error response; a ``Status`` object if ``path`` belongs to the Kubernetes-style API."""
    headers = dict(headers or {})
    if retry_after_seconds is not None:
        headers["Retry-After"] = str(max(1, round(retry_after_seconds)))
    body: dict[str, Any] = {"error": {"code": code, "message": reason}}
    if path.startswith("/api"):
        body = api_requests.status(ApiError(status, reason))
    return respond(body, code=status, headers=headers)
