"""Addresses of Spark: ``sc://host:port/;key=value`` of a Connect server (no secret in it), ``spark://`` of masters."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

PORT_DEFAULT: Final = 15002
STANDALONE: Final = "spark://"
KUBERNETES: Final = "k8s://"
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
            found = f"not {key!r}" if equals else "a key is missing"  # a value may be a password
            raise ValueError(f"after the address may come ;key=value with {', '.join(sorted(_ALLOWED))}, {found}")
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


def standalone_masters(master: str) -> list[tuple[str, int]]:
    """Hosts and ports of ``spark://a:7077,b:7077``; none for another kind of master, or one that Spark has to judge."""
    if not master.startswith(STANDALONE):
        return []
    found = []
    for each in master.removeprefix(STANDALONE).split(","):
        try:
            parts = urlsplit(STANDALONE + each)
            host, port = parts.hostname, parts.port
        except ValueError:
            return []
        if not host or port is None:
            return []
        found.append((host, port))
    return found
