"""Endpoints of subscriptions: where may be pushed to, and what their answers mean."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

URL_CHARS_MAX = 2048
RETRY_AFTER_SECONDS_MAX = 3600
"""An endpoint that asks for more is asked again after this."""

RETRIED_STATUSES = frozenset({408, 425, 429})


def is_url(url: str) -> bool:
    """Whether messages may be pushed to this URL, as far as its text says."""
    try:
        parts = urlsplit(url)
        if len(url) > URL_CHARS_MAX or parts.scheme not in ("http", "https") or not parts.hostname:
            return False
        if parts.port == 0 or not url.isprintable() or " " in url:  # a port that is no number raises
            return False
    except ValueError:
        return False
    try:
        return is_endpoint(parts.hostname)
    except ValueError:
        return True  # a name: what it means is looked up, and judged, at each connection


def is_endpoint(address: str) -> bool:
    """May messages be pushed to this address?  Not to a link-local one: the cloud's metadata service lives there.

    Private networks and loopback may: that is where endpoints are.
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    found = mapped or found
    return not (found.is_link_local or found.is_multicast or found.is_unspecified)


def is_delivered(status: int) -> bool:
    return 200 <= status < 300


def is_final(status: int) -> bool:
    """Whether sending the same message again would be answered the same: all but what is a server's own trouble.

    Also what HTTP does not define, such as 999: no retry was ever answered better.
    """
    return not 500 <= status < 600 and status not in RETRIED_STATUSES
