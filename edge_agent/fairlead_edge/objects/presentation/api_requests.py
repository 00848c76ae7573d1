"""Paths and errors of the Kubernetes-style API.

/api/v1/pods                              list, all namespaces
/api/v1/namespaces/shop/pods/till         one object
/apis/apps/v1/namespaces/shop/deployments
/api/v1/nodes/edge-1/status               a subresource

An ``ApiError`` becomes a ``Status`` object, as Kubernetes clients expect.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fairlead_wire.errors import FairleadError

PATH_CHARS_MAX: Final = 1024


class DiscoveryRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A discovery document: of all groups (if nothing is set), of a group, or of a version."""

    legacy: bool
    """Below ``/api`` instead of ``/apis``."""
    group: str = ""
    version: str = ""


class Objects(msgspec.Struct, frozen=True, kw_only=True):
    """Objects of a type; ``name`` "": a list; ``namespace`` None: all namespaces, or cluster-scoped."""

    group: str
    version: str
    plural: str
    namespace: str | None = None
    name: str = ""
    subresource: str = ""


def parse(path: str) -> DiscoveryRequest | Objects | None:
    """Parse a path below ``/api`` or ``/apis``; None if it has no meaning."""
    parts = path.strip("/").split("/")
    if len(path) > PATH_CHARS_MAX or any(not part for part in parts):
        return None
    match parts:
        case ["api"]:
            return DiscoveryRequest(legacy=True)
        case ["apis"]:
            return DiscoveryRequest(legacy=False)
        case ["apis", group]:
            return DiscoveryRequest(legacy=False, group=group)
        case ["api", version]:
            return DiscoveryRequest(legacy=True, version=version)
        case ["apis", group, version]:
            return DiscoveryRequest(legacy=False, group=group, version=version)
        case ["api", version, *rest]:
            return _objects("", version, rest)
        case ["apis", group, version, *rest]:
            return _objects(group, version, rest)
        case _:
            return None


def _objects(group: str, version: str, rest: list[str]) -> Objects | None:
    def at(plural: str, namespace: str | None, name: str = "", subresource: str = "") -> Objects:
        return Objects(
            group=group, version=version, plural=plural, namespace=namespace, name=name, subresource=subresource
        )

    match rest:
        # Two parts below "namespaces" are a type in a namespace, except the subresources of a namespace itself.
        case ["namespaces", name, ("status" | "finalize") as subresource] if not group:
            return at("namespaces", None, name, subresource)
        case ["namespaces", namespace, plural]:
            return at(plural, namespace)
        case ["namespaces", namespace, plural, name]:
            return at(plural, namespace, name)
        case ["namespaces", namespace, plural, name, *subresource]:
            return at(plural, namespace, name, "/".join(subresource))
        case [plural]:
            return at(plural, None)
        case [plural, name]:
            return at(plural, None, name)
        case [plural, name, *subresource]:
            return at(plural, None, name, "/".join(subresource))
        case _:
            return None


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
    """An error response with HTTP status ``code``; ``str()`` is the message for the user."""

    def __init__(self, code: int, message: str, *, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.details = details or {}


def status(error: ApiError) -> dict[str, Any]:
    """The body of the error response."""
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
    """The error for a name without an object."""
    resource = f"{plural}.{group}" if group else plural
    details = {"name": name, "kind": plural, **({"group": group} if group else {})}
    return ApiError(404, f'{resource} "{name}" not found', details=details)
