"""What an answer of the API server is where it is not what was asked for."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fairlead_hub.cluster import api_json
from fairlead_wire.errors import FairleadError, Malformed, Permanent, Temporary
from fairlead_wire.link.peer_json import Decoded

BUSY = frozenset({429, 500, 502, 503, 504})
UNAUTHORIZED = 401
ERROR_CHARS_MAX = 500


class Refused(Permanent):
    """The API server said no: ``status`` is the HTTP status, the text its message."""

    def __init__(self, status: int, message: str, reason: str = "") -> None:
        super().__init__(message, code=reason or f"http_{status}")
        self.status = status


class Unavailable(Temporary):
    """The API server is away or busy, or does not accept our credentials (any more): tokens are renewed on disk."""


class Unreadable(Unavailable):
    """A good answer whose body is not what was asked for: a load balancer's page, nothing, half a document."""


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""


def of_answer(status: int, headers: Mapping[str, str], content: bytes) -> FairleadError:
    """The error that an answer of this status, 400 or more, stands for; the body may be anything."""
    try:
        found = msgspec.json.decode(content, type=_Status)
    except (ValueError, RecursionError):  # whatever a proxy put there instead
        found = _Status(message=content[:ERROR_CHARS_MAX].decode(errors="replace"))
    message = f"API server answered {status}: {found.message[:ERROR_CHARS_MAX].strip()}"
    if status in BUSY:
        after = headers.get("Retry-After", "")
        return Unavailable(message, retry_after_seconds=float(after) if after.isdecimal() else None)
    if status == UNAUTHORIZED:
        return Unavailable(f"API server does not accept our credentials: {found.message[:ERROR_CHARS_MAX]}")
    return Refused(status, message, found.reason)


def decoded(decoder: msgspec.json.Decoder[Decoded], content: bytes, path: str) -> Decoded:
    """One answer's body.  Raises ``Unreadable``: what answered in the API server's place may be gone soon."""
    try:
        return api_json.decode(decoder, content)
    except Malformed as error:
        raise Unreadable(f"the answer for {path} cannot be read: {error}") from None
