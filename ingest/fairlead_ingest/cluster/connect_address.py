"""How the address of a Spark Connect server is written: `sc://host:port/;key=value`, with no secret in it."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

PORT_DEFAULT: Final = 15002
TOKEN_VARIABLE: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
_ALLOWED: Final = frozenset({"use_ssl", "user_id", "user_agent", "grpc_max_message_size"})


def check(remote: str) -> str:
    """``remote`` itself. Raises ``ValueError`` with what is wrong."""
    address(remote)
    for each in filter(None, urlsplit(remote).path.lstrip("/").split(";")):
        key, equals, _ = each.partition("=")
        if key == "token":
            raise ValueError(f"a token is no part of it, give it in {TOKEN_VARIABLE}")
        if not equals or key not in _ALLOWED:
            raise ValueError(f"after the address may come ;key=value with {', '.join(sorted(_ALLOWED))}, not {each!r}")
    return remote


def address(remote: str) -> tuple[str, int]:
    """Host and port. Raises ``ValueError``."""
    parts = urlsplit(remote)
    if parts.scheme != "sc" or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("must be sc://host:port")
    try:
        return parts.hostname, PORT_DEFAULT if parts.port is None else parts.port
    except ValueError:
        raise ValueError("must be sc://host:port, with a port below 65536") from None
