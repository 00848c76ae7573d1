"""Addresses as errors and logs show them: without anything that may be a password.

People put secrets in many places of an address, also where none belongs, and a refused address is always quoted:

    s3://KEY:SECRET@bucket/t     before an @, also with a slash in it
    s3://bucket:SECRET/t         where a port would stand
    KEY:SECRET@host              without a scheme
    https://host/?token=SECRET   in the query

When in doubt, a harmless word is hidden too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

HIDDEN: Final = "[secret]"
SHOWN_CHARS_MAX: Final = 80
CAUSES_MAX: Final = 6
"""How many nested causes of an error are examined."""
NOT_TLS: Final = frozenset(
    {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}
)
"""OpenSSL's reasons for bytes that are not TLS."""
_HUNG_UP: Final = frozenset(
    {
        "ConnectionResetError",
        "RemoteDisconnected",
        "BadStatusLine",
        "ServerDisconnectedError",
        "InvalidMessage",
        "EOFError",
        "ClientOSError",
        "BadHttpMessage",
        "ClientResponseError",
        "HttpProcessingError",
    }
)
"""Errors of a plain HTTP client at a port that speaks TLS."""
HTTP: Final = ("http", "https")

_SCHEME: Final = re.compile(r":/+")
_END_OF_HOST: Final = re.compile(r"[/?#]")
_PORT: Final = re.compile(r"[0-9]{0,5}|[<{$]{0,2}(?:[A-Z]{1,16}_)?(?:PORT|port)[>}]?")
"""A port, or a placeholder for one."""
_IN_QUERY: Final = re.compile(
    r"((?:passw|pwd|secret|token|sig|credential|api_?key|access_?key)[\w.-]{0,64}=)[^&;#\s'\"]+", re.IGNORECASE
)
_USERINFO: Final = re.compile(r"(?<=://)[^/\s@'\"]{1,1024}@|(?<=://)[^/\s@'\":]{1,512}:[^\s@'\"]{1,1024}@")


def shown(address: str) -> str:
    """An address, or any text that may be one, with its secrets hidden."""
    scheme = _SCHEME.search(address)
    if scheme is None:
        before, at, host = address.rpartition("@")
        return _query(f"{HIDDEN}@{host}" if at and ":" in before else address)
    start, rest = address[: scheme.end()], address[scheme.end() :]
    end = _END_OF_HOST.search(rest)
    host = rest[: end.start()] if end else rest
    host_only, colon, port = (host if host.startswith("[") else f"[]{host}").partition("]")[2].partition(":")
    if "@" in host or (colon and not _PORT.fullmatch(port)):
        before, at, after = rest.rpartition("@")
        if at and ":" in before:
            return start + HIDDEN + "@" + _query(after)
        if "@" in host:
            return f"{start}{HIDDEN}@" + _query(rest.partition("@")[2])
        return f"{start}{host_only}:{HIDDEN}"
    return _query(address)


def url(text: str, schemes: tuple[str, ...] = HTTP, *, example: str = "") -> str:
    """Check the URL of a server; returns it without trailing slashes.  Raises ``ValueError``, without passwords."""
    try:
        parts = urlsplit(text)
        is_good = parts.scheme in schemes and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_good = False
    if not is_good or "@" in parts.netloc or not text.isascii() or not text.isprintable() or " " in text:
        as_in = f", for example {example}" if example else ""
        found = repr(shown(text))
        found = found if len(found) <= SHOWN_CHARS_MAX else f"{found[:SHOWN_CHARS_MAX]}…"
        raise ValueError(f"must be {schemes[0]}://host:port{as_in}, is {found}")
    return text.rstrip("/")


def in_text(text: str) -> str:
    """A text from elsewhere, such as an error, with the user part of any address in it hidden."""
    return _USERINFO.sub(f"{HIDDEN}@", text)


def _query(text: str) -> str:
    return _IN_QUERY.sub(rf"\1{HIDDEN}", text)


def scheme_hint(url: str, error: BaseException, *, answered: bool = False) -> str:
    """A hint to append to a connection error if only one side seems to use TLS; "" otherwise.

    Nested errors of ``urllib``, ``aiohttp`` and ``websockets`` are examined.  ``answered``: the server has answered in
    HTTP before, so a closed connection is no sign of TLS.
    """
    scheme, _, rest = url.partition("://")
    plain, secure = ("ws", "wss") if scheme in ("ws", "wss") else ("http", "https")
    seen = list(_causes(error))
    if scheme == secure and any(getattr(each, "reason", None) in NOT_TLS for each in seen):
        return f"; the server does not speak TLS on this port: did you mean {plain}://{rest}, or another port?"
    if scheme == plain and not answered and any(type(each).__name__ in _HUNG_UP for each in seen):
        return f"; if the server speaks TLS on this port, use {secure}://{rest}"
    return ""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(CAUSES_MAX):
        if not isinstance(error, BaseException):
            return
        yield error
        inner = getattr(error, "reason", None)
        inner = inner if isinstance(inner, BaseException) else getattr(error, "os_error", None)
        error = inner or error.__cause__ or error.__context__
