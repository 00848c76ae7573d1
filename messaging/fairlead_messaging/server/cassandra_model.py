"""What ``[cassandra]`` of the settings may say."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from fairlead_wire.validation import mistakes
from fairlead_wire.validation.file_path import FilePath
from fairlead_wire.validation.model import Model

PORT: Final = 9042
PORT_DIGITS_MAX: Final = 5
NOT_IN_A_HOST: Final = frozenset("@/ ")
CONSISTENCIES: Final = ("LOCAL_QUORUM", "QUORUM", "ALL", "LOCAL_ONE", "ONE")
"""What a write that was answered, and a read, rests on. The last two only where there is one copy."""


def _consistency(name: str) -> str:
    if name.upper() not in CONSISTENCIES:
        raise ValueError(mistakes.not_one_of(CONSISTENCIES, name))
    return name.upper()


def contact_point(text: str) -> tuple[str, int]:
    """Host and port of ``host`` or ``host:port``; IPv6 in brackets where it has a port.  Raises: ValueError."""
    host, port = text, str(PORT)
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"must be host or host:port, is {mistakes.shown(text)}")
        port = rest[1:] or port
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    is_number = port.isascii() and port.isdigit() and len(port) <= PORT_DIGITS_MAX
    if not host or not NOT_IN_A_HOST.isdisjoint(host) or not is_number or not 0 < int(port) < 65536:
        raise ValueError(f"must be host or host:port, is {mistakes.shown(text)}")
    return host, int(port)


def _contact_point(text: str) -> str:
    contact_point(text)
    return text


class CassandraModel(Model):
    """Of `store = "cassandra"`; [how it is used](../howto/messaging-on-cassandra.md)."""

    contact_points: list[Annotated[str, AfterValidator(_contact_point)]] = Field(default=[], max_length=64)
    """Required with `store = "cassandra"`: some nodes, as `host` or `host:port` (9042); they know the others."""
    keyspace: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,47}$")] = "fairlead"
    """Of this service alone. Made with up to three copies in the data center when it is not there and the user may."""
    datacenter: str | None = None
    """Whose nodes are asked; absent: that of the first contact point that answers."""
    consistency: Annotated[str, AfterValidator(_consistency)] = "LOCAL_QUORUM"
    """Of reads and writes: `LOCAL_QUORUM`, `QUORUM`, `ALL`; `LOCAL_ONE` and `ONE` only for a keyspace with one copy."""
    username: str | None = None
    """With `password_file`; absent: no login."""
    password_file: FilePath | None = None
    """Holds the password; read again at every connection, so it can be changed while the service runs."""
    tls_ca: FilePath | None = None
    """Authority of the nodes' certificates, which must name their addresses; absent: no TLS."""
