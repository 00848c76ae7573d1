"""A subscription: a topic's committed messages pushed to an HTTP endpoint, in order, by a delivery policy.

    deliver ─2xx→ next message                   answered: its position moves on
       ├─no answer, 408, 425, 429, 5xx→ wait, retry   the policy decides how long and how often
       └─other answers, retries used up→ dead letter  into its topic when it has one; counted either way

The record is durable: position, attempts and the time of the next one survive a restart, so a message may
come twice but is never passed over.  The endpoint tells repeats apart by the message id.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from typing import Any
from urllib.parse import urlsplit

import msgspec

from fairlead_messaging import keys, topic
from fairlead_messaging.errors import Refused
from fairlead_messaging.kv import Snapshot
from fairlead_messaging.producers import PRODUCER_ID_BYTES_MAX
from fairlead_messaging.topic import Topic
from fairlead_wire import delivery
from fairlead_wire.delivery import DeliveryPolicy, Uniform

URL_CHARS_MAX = 2048
SUBSCRIPTIONS_MAX = 1000
"""Over all topics."""

RETRY_AFTER_SECONDS_MAX = 3600
"""An endpoint that asks for more is asked again after this."""
_SECONDS = re.compile(r"[0-9]{1,12}")

RETRIED_STATUSES = frozenset({408, 425, 429})


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """The durable record.  ``position`` (hex, exclusive) is the last message dealt with; times in milliseconds."""

    url: str
    delivery: DeliveryPolicy = DeliveryPolicy()
    dead_letter_topic: str | None = None
    position: str = ""
    attempts: int = 0
    waited_seconds: float = 0.0
    previous_seconds: float = 0.0
    next_attempt_ms: int = 0
    last_error: str = ""
    delivered: int = 0
    dead_lettered: int = 0
    dropped: int = 0


def parse(raw: object) -> Subscription:
    """What a caller may say of one: ``url``, ``delivery``, ``dead_letter_topic``.

    Raises: Refused naming the key.
    """
    if not isinstance(raw, dict) or set(raw) - {"url", "delivery", "dead_letter_topic"}:
        raise Refused("a subscription has url, delivery and dead_letter_topic", code="bad_subscription")
    url = raw.get("url")
    if not isinstance(url, str) or not _is_http(url):
        raise Refused("url must be http:// or https:// with a host that is not link-local", code="bad_subscription")
    try:
        policy = delivery.parse(raw["delivery"]) if raw.get("delivery") is not None else DeliveryPolicy()
    except ValueError as error:
        raise Refused(f"delivery: {error}", code="bad_subscription") from None
    dead_letters = raw.get("dead_letter_topic")
    if dead_letters is not None:
        dead_letter_names(dead_letters)
    return Subscription(url=url, delivery=policy, dead_letter_topic=dead_letters)


def dead_letter_names(text: Any) -> tuple[str, str]:
    """(namespace, name) of ``namespace/name``.  Raises: Refused."""
    namespace, slash, name = text.partition("/") if isinstance(text, str) else ("", "", "")
    if not slash:
        raise Refused("dead_letter_topic must be namespace/name", code="bad_subscription")
    return topic.check_name("namespace", namespace), topic.check_name("topic", name)


def letter_producer(name: tuple[str, str, str], position: str) -> str:
    """The producer id of one dead letter: three names at their full length would not fit into one."""
    plain = f"subscription/{'/'.join(name)}/{position}"
    if len(plain) <= PRODUCER_ID_BYTES_MAX:
        return plain
    return f"subscription/{hashlib.sha256('/'.join(name).encode()).hexdigest()}/{position}"


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


def failed(
    record: Subscription, reason: str, now_ms: int, *, uniform: Uniform, retry_after_seconds: float | None
) -> Subscription | None:
    """The record with its next attempt; None when the policy allows no more."""
    wait = delivery.next_delay(
        record.delivery,
        record.attempts,
        uniform=uniform,
        waited_seconds=record.waited_seconds,
        previous_seconds=record.previous_seconds,
        retry_after_seconds=retry_after_seconds,
    )
    if wait is None:
        return None
    return msgspec.structs.replace(
        record,
        attempts=record.attempts + 1,
        waited_seconds=record.waited_seconds + wait.seconds,
        previous_seconds=wait.seconds,
        next_attempt_ms=now_ms + int(wait.seconds * 1000),
        last_error=reason,
    )


def moved(
    record: Subscription, position: str, *, delivered: int = 0, dead: int = 0, dropped: int = 0, reason: str = ""
) -> Subscription:
    """The record after a message was dealt with; attempts begin anew.  ``reason``: why it was given up."""
    return msgspec.structs.replace(
        record,
        position=position,
        attempts=0,
        waited_seconds=0.0,
        previous_seconds=0.0,
        next_attempt_ms=0,
        last_error=reason or record.last_error,
        delivered=record.delivered + delivered,
        dead_lettered=record.dead_lettered + dead,
        dropped=record.dropped + dropped,
    )


def of_topic(snapshot: Snapshot, living: Topic) -> dict[str, Subscription]:
    """Subscriptions of this generation by name."""
    prefix = keys.table(keys.SUBSCRIPTION, living)
    return {key[len(prefix) :].decode(): decode(raw) for key, raw in snapshot.scan(prefix, keys.above(prefix))}


def encode(record: Subscription) -> bytes:
    return msgspec.json.encode(record)


def decode(raw: bytes) -> Subscription:
    return msgspec.json.decode(raw, type=Subscription)


def _is_http(url: str) -> bool:
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
