"""Endpoints of subscriptions: where may be pushed to, and what their answers mean."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

URL_CHARS_MAX = 2048
RETRY_AFTER_SECONDS_MAX = 3600
"""An endpoint that asks for more is asked again after this."""
_SECONDS = re.compile(r"[0-9]{1,12}")

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


def asked_seconds(retry_after: str) -> float | None:
    """What an endpoint's Retry-After asks for, at most ``RETRY_AFTER_SECONDS_MAX``; None for dates and nonsense."""
    if not _SECONDS.fullmatch(retry_after):
        return None
    return float(min(int(retry_after), RETRY_AFTER_SECONDS_MAX))


def is_delivered(status: int) -> bool:
    return 200 <= status < 300


def is_final(status: int) -> bool:
    """Whether sending the same message again would be answered the same."""
    return 300 <= status < 500 and status not in RETRIED_STATUSES
