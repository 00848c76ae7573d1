"""Errors of the API server: refusals, unavailability, unreadable answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fairlead_hub.cluster import api_json
from fairlead_wire.backoff import retry_after_seconds
from fairlead_wire.errors import FairleadError, Malformed, Permanent, Temporary
from fairlead_wire.link.peer_json import Decoded

BUSY = frozenset({429, 500, 502, 503, 504})
UNAUTHORIZED = 401
CONFLICT = "FieldManagerConflict"
"""Reason of a cause: another manager owns the field."""
ERROR_CHARS_MAX = 500


class ApiRefused(Permanent):
    """The API server refused: ``status`` is the HTTP status, the text its message.

    ``causes``: for an apply, the fields that others own, in the API server's words.
    """

    def __init__(self, status: int, message: str, reason: str = "", causes: Sequence[str] = ()) -> None:
        super().__init__(message, code=reason or f"http_{status}")
        self.status = status
        self.causes = causes


class ApiUnavailable(Temporary):
    """The API server is away or busy, or does not accept our credentials (any more): tokens are renewed on disk.

    ``status``: HTTP status of its answer; 0 if there was none.
    """

    def __init__(self, message: str, *, retry_after_seconds: float | None = None, status: int = 0) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds)
        self.status = status


class ApiUnreachable(ApiUnavailable):
    """There is no connection to the API server."""


class UnreadableAnswer(ApiUnavailable):
    """A successful answer whose body is unusable: a load balancer's page, an empty body, half a document."""


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""
    field: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] = []


class _ApiStatus(msgspec.Struct):
    message: str = ""
    reason: str = ""
    details: _Details | None = None


def of_answer(status: int, headers: Mapping[str, str], content: bytes) -> FairleadError:
    """The error for an answer with status 400 or above; the body may be anything."""
    try:
        found = msgspec.json.decode(content, type=_ApiStatus)
    except (ValueError, RecursionError):  # a proxy may have put anything there
        found = _ApiStatus(message=content[:ERROR_CHARS_MAX].decode(errors="replace"))
    message = f"API server answered {status}: {found.message[:ERROR_CHARS_MAX].strip()}"
    if status in BUSY:
        asked = retry_after_seconds(headers.get("Retry-After"))
        return ApiUnavailable(message, retry_after_seconds=asked, status=status)
    if status == UNAUTHORIZED:
        return ApiUnavailable(f"API server does not accept our credentials: {found.message[:ERROR_CHARS_MAX]}")
    causes = found.details.causes if found.details is not None else ()
    conflicts = [f"{each.message} {each.field}"[:ERROR_CHARS_MAX] for each in causes if each.reason == CONFLICT]
    return ApiRefused(status, message, found.reason, conflicts)


def decoded(decoder: msgspec.json.Decoder[Decoded], content: bytes, path: str) -> Decoded:
    """Decode an answer's body.

    Raises ``UnreadableAnswer``: a proxy that answered for the API server may be gone soon.
    """
    try:
        return api_json.decode(decoder, content)
    except Malformed as error:
        raise UnreadableAnswer(f"the answer for {path} cannot be read: {error}") from None
