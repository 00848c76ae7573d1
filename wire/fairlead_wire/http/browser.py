"""Refuses requests from web pages to a loopback port that needs no certificate or token.

A browser on this machine can reach loopback on behalf of any page that is open in it.  Two headers give such requests
away: ``Host`` has a foreign name if that name resolves to loopback (DNS rebinding), and in ``Origin`` and
``Sec-Fetch-Site`` the browser names the page.  Programs that are not browsers are not affected.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlsplit

OWN_SITE = frozenset(["same-origin", "none"])
"""Values of ``Sec-Fetch-Site`` for our own page, and for an address typed by the user."""

_HOST = re.compile(r"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<name>[^\[\]:@/]+))(?::[0-9]{0,5})?")
"""The ``Host`` header.  URL parsers accept more, such as ``localhost:[::1].example``."""


def refusal(headers: Mapping[str, str]) -> str:
    """Why a request with these headers (a case-insensitive mapping) is refused; empty if it is allowed."""
    host = headers.get("Host", "")
    if host and not _is_local(host):
        return "use localhost or an IP address as the host: other names could belong to any web page"
    if is_cross_origin(headers.get("Origin"), host):
        return "requests from pages of another origin are refused"
    if headers.get("Sec-Fetch-Site", "none") not in OWN_SITE:
        return "requests from pages of another site are refused"
    return ""


def is_cross_origin(origin: str | None, host: str) -> bool:
    """True if this ``Origin`` header (None: absent) names a page of another host."""
    if origin is None:
        return False
    try:
        return urlsplit(origin).netloc != host
    except ValueError:
        return True


@lru_cache(64)  # called for every request, nearly always with the same name
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
