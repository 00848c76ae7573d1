"""Web pages are no local programs: what they ask of a port on loopback that needs no certificate or token.

A browser on this machine reaches loopback for whatever page is open in it.  Two ways in are closed: a name that
resolves to loopback (DNS rebinding) is no name of ours, and its own browser names a page
of another origin.
Programs that are no browser send neither header and notice nothing.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlsplit

OWN_SITE = frozenset(["same-origin", "none"])
"""Of ``Sec-Fetch-Site``: our own page, or an address a person typed."""

_HOST = re.compile(r"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<name>[^\[\]:@/]+))(?::[0-9]{0,5})?")
"""Of the header ``Host``; a reader of addresses takes more, such as ``localhost:[::1].example``."""


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
    """Does a request with this ``Origin`` come from a page of another host?  None: it says of none."""
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
