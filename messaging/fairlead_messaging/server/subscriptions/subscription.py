"""A subscription: a topic's committed messages pushed to an HTTP endpoint, in order, by a delivery policy.

    deliver ─2xx→ next message                   answered: its position moves on
       ├─no answer, 408, 425, 429, 5xx→ wait, retry   the policy decides how long and how often
       └─other answers, retries used up→ dead letter  into its topic when it has one; counted either way

The record is durable: position, attempts and the time of the next one survive a restart, so a message may
come twice but is never passed over.  The endpoint tells repeats apart by the message id.

Law: every committed message of the topic's generation after the subscription began is counted once, as delivered,
dead-lettered, dropped (given up without a dead letter topic) or expired; the position and its count are one write.
A dead letter that cannot be written waits in ``undeliverable`` while what is behind it goes on.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec

from fairlead_messaging.api.errors import NotFound, Refused
from fairlead_messaging.api.message_id import FIRST, before
from fairlead_messaging.server.log import keys, topic, topics
from fairlead_messaging.server.log.topic import Topic
from fairlead_messaging.server.producers.producer import PRODUCER_ID_BYTES_MAX
from fairlead_messaging.server.store.ordered_kv import Snapshot
from fairlead_wire import delivery
from fairlead_wire.delivery import DeliveryPolicy, Uniform
from fairlead_wire.mistakes import Wrong

URL_CHARS_MAX = 2048
SUBSCRIPTIONS_MAX = 1000
"""Over all topics."""

RETRY_AFTER_SECONDS_MAX = 3600
"""An endpoint that asks for more is asked again after this."""
_SECONDS = re.compile(r"[0-9]{1,12}")

UNDELIVERABLE_MAX = 100
"""Messages given up whose dead letters cannot be written yet; at so many the subscription waits for its topic."""
REASON_CHARS_MAX = 200
LETTER_RETRY_MS = 5_000
"""How often dead letters that could not be written are tried again."""

RETRIED_STATUSES = frozenset({408, 425, 429})


class Undeliverable(msgspec.Struct, frozen=True):
    """A message given up whose dead letter is not written yet, and why it was given up."""

    id: str
    reason: str


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """The durable record.  ``position`` (hex, exclusive) is the last message dealt with; times in milliseconds.

    ``revision`` changes whenever somebody puts the subscription; what an earlier one's delivery notes is refused.
    """

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
    expired: int = 0
    undeliverable: tuple[Undeliverable, ...] = ()
    dead_letter_error: str = ""
    """Why the last dead letter could not be written; "" when it could."""
    revision: str = ""

    @property
    def state(self) -> str:
        """``delivering``, ``retrying`` (a message failed) or ``dead_letters_waiting`` (their topic takes none)."""
        if self.undeliverable:
            return "dead_letters_waiting"
        return "retrying" if self.attempts else "delivering"

    @property
    def reason(self) -> str:
        """Why the state is what it is; "" while all is well."""
        if self.undeliverable:
            return (
                f"{len(self.undeliverable)} dead letters cannot be written to {self.dead_letter_topic}: "
                f"{self.dead_letter_error}"
            )
        return self.last_error if self.attempts else ""

    @property
    def oldest_needed(self) -> bytes:
        """Exclusive: messages after this id are not all counted yet."""
        position = bytes.fromhex(self.position) if self.position else FIRST
        return min([position, *(before(bytes.fromhex(each.id)) for each in self.undeliverable)])


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
    except Wrong as error:
        raise Refused(f"delivery: {error.sentence}", code="bad_subscription") from None
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


def within_its_wait(record: Subscription, now_ms: int) -> Subscription:
    """The record with a next attempt no further away than its wait: after a clock stepped back it would be."""
    latest_ms = now_ms + max(int(record.previous_seconds * 1000), LETTER_RETRY_MS)
    return record if record.next_attempt_ms <= latest_ms else msgspec.structs.replace(record, next_attempt_ms=latest_ms)


def moved(
    record: Subscription,
    position: str,
    *,
    delivered: int = 0,
    dead: int = 0,
    dropped: int = 0,
    expired: int = 0,
    reason: str = "",
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
        expired=record.expired + expired,
    )


def set_aside(
    record: Subscription, position: str, *, expired: int, reason: str, letter_error: str
) -> Subscription | None:
    """The record with a message given up whose dead letter cannot be written now; None when too many wait already."""
    if len(record.undeliverable) >= UNDELIVERABLE_MAX:
        return None
    after = moved(record, position, expired=expired, reason=reason)
    waiting = (*record.undeliverable, Undeliverable(position, reason[:REASON_CHARS_MAX]))
    return msgspec.structs.replace(after, undeliverable=waiting, dead_letter_error=letter_error[:REASON_CHARS_MAX])


def resolved(
    record: Subscription, letter: Undeliverable, *, dead: int = 0, dropped: int = 0, expired: int = 0
) -> Subscription:
    """The record after one of those set aside was dealt with."""
    left = tuple(each for each in record.undeliverable if each.id != letter.id)
    return msgspec.structs.replace(
        record,
        undeliverable=left,
        dead_letter_error=record.dead_letter_error if left else "",
        dead_lettered=record.dead_lettered + dead,
        dropped=record.dropped + dropped,
        expired=record.expired + expired,
    )


def waits_for_letters(record: Subscription, reason: str, now_ms: int) -> Subscription:
    """The record when a message can neither be delivered nor set aside: it stays, and is tried again later."""
    return msgspec.structs.replace(
        record, next_attempt_ms=now_ms + LETTER_RETRY_MS, dead_letter_error=reason[:REASON_CHARS_MAX]
    )


def of_topic(snapshot: Snapshot, living: Topic) -> dict[str, Subscription]:
    """Subscriptions of this generation by name."""
    prefix = keys.table(keys.SUBSCRIPTION, living)
    return {key[len(prefix) :].decode(): decode(raw) for key, raw in snapshot.scan(prefix, keys.above(prefix))}


def every(snapshot: Snapshot) -> Iterator[tuple[str, str, str, Subscription]]:
    """(namespace, topic, name, record) of every subscription of a living topic."""
    living: dict[bytes, bool] = {}
    for key, raw in snapshot.scan(keys.SUBSCRIPTION, keys.above(keys.SUBSCRIPTION)):
        namespace, name, rest = key[1:].split(b":", 2)
        generation, subscription = rest[:4], rest[4:]
        place = key[: len(key) - len(subscription)]
        if place not in living:
            try:
                found = topics.lookup(snapshot, namespace.decode(), name.decode())
                living[place] = found.generation == int.from_bytes(generation, "big")
            except NotFound:
                living[place] = False
        if living[place]:
            yield namespace.decode(), name.decode(), subscription.decode(), decode(raw)


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
