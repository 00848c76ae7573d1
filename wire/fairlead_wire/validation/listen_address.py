"""The address that a program listens on, ``host:port``, and whether it is loopback.

    "127.0.0.1:10000" ─parse→ ("127.0.0.1", 10000) ─is_loopback→ True

Loopback decides what needs no TLS, so only the address itself counts: ``127.example.com`` is a name that DNS resolves.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from fairlead_wire.validation.mistakes import Mistake, shown

PORT_MAX: Final = 65_535
_ADDRESS: Final = re.compile(
    r"(?:\[(?P<ipv6>[0-9a-fA-F:.]+(?:%[\w.-]+)?)\]|(?P<host>[A-Za-z0-9._-]+)):(?P<port>[0-9]{1,5})"
)


def parse(text: str) -> tuple[str, int]:
    """Host (IPv6 without brackets) and port; port 0 lets the system choose one.  Raises ``ValueError``."""
    found = _ADDRESS.fullmatch(text)
    if not found or int(found["port"]) > PORT_MAX:
        raise ValueError(f"must be host:port, is {shown(text)}")
    return found["ipv6"] or found["host"], int(found["port"])


def find(key: str, text: str) -> tuple[Mistake, ...]:
    """The mistake in the address at ``key``, if there is one."""
    try:
        parse(text)
    except ValueError as error:
        return (Mistake(key, str(error)),)
    return ()


def is_loopback(host: str) -> bool:
    """True for addresses of 127.0.0.0/8, ``::1``, and the name ``localhost``; False for any other name."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
