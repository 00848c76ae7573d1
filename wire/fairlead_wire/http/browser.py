"""Refuses requests of web pages to a port on loopback that needs no certificate or token.

A browser on this machine can reach loopback on behalf of any page that is open in it.  Two ways are closed: a host name
that resolves to loopback (DNS rebinding) is not one of ours, and the browser itself names the origin of a page.
Programs other than browsers send neither header and are not affected.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlsplit

OWN_SITE = frozenset(["same-origin", "none"])
"""Values of ``Sec-Fetch-Site`` for our own page, and for an address that a person typed."""

_HOST = re.compile(r"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<name>[^\[\]:@/]+))(?::[0-9]{0,5})?")
"""The header ``Host``; URL parsers accept more, such as ``localhost:[::1].example``."""


def refusal(headers: Mapping[str, str]) -> str:
    """Why a request with these headers (any case) is not answered; empty when it is."""
    host = headers.get("Host", "")
    if host and not _is_local(host):
        return "ask for localhost or an address: a name that others choose could be any page's"
    if is_of_another(headers.get("Origin"), host):
        return "another origin's page has no business here"
    if headers.get("Sec-Fetch-Site", "none") not in OWN_SITE:
        return "another site's page has no business here"
    return ""


def is_of_another(origin: str | None, host: str) -> bool:
    """Does a request with this ``Origin`` come from a page of another host?  None: it has no such header."""
    if origin is None:
        return False
    try:
        return urlsplit(origin).netloc != host
    except ValueError:
        return True


@lru_cache(64)  # asked of every request, and nearly always about the same name
def _is_local(host: str) -> bool:
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = (found["ipv6"] or found["name"]).lower()
    try:
        if name == "localhost" or name.endswith(".localhost"):
            return True
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
