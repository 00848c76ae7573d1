"""Refusals of the local API, in the words Kubernetes clients understand: a ``Status`` object."""

from __future__ import annotations

from typing import Any, Final

from fairlead_wire.errors import FairleadError

_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    507: "InsufficientStorage",
}


class ApiError(FairleadError):
    """Answer with this HTTP status; ``str()`` is what the user reads."""

    def __init__(self, code: int, message: str, *, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.details = details or {}


def status(error: ApiError) -> dict[str, Any]:
    """The body of the answer."""
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": str(error),
        "reason": _REASONS.get(error.code, "Unknown"),
        "code": error.code,
    }
    if error.details:
        body["details"] = error.details
    return body


def not_found(plural: str, group: str, name: str) -> ApiError:
    """No object of this name is held."""
    resource = f"{plural}.{group}" if group else plural
    details = {"name": name, "kind": plural, **({"group": group} if group else {})}
    return ApiError(404, f'{resource} "{name}" not found', details=details)
