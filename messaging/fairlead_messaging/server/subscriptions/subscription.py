"""A subscription: committed messages of a topic pushed to an HTTP endpoint, in order, under a delivery policy.

    deliver ─2xx→ next message                   answered: its position moves on
       ├─no answer, 408, 425, 429, 5xx→ wait, retry   the policy decides how long and how often
       └─other answers, retries used up→ dead letter  into its topic when it has one; counted either way

The record is durable: position, attempts and the time of the next one survive a restart, so a message may come twice
but is never skipped.  The endpoint recognizes repeats by the message id.

Invariant: every committed message of the topic's generation after the subscription began is counted once, as delivered,
dead-lettered, dropped (given up without a dead letter topic) or expired; the position and its count are one write.
A dead letter that cannot be written waits in ``undeliverable`` while later messages are delivered.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec

from fairlead_messaging.api.errors import NotFound, Refused
from fairlead_messaging.api.message_id import FIRST, MessageId, before, parse_hex
from fairlead_messaging.api.requests import SubscriptionRequest
from fairlead_messaging.server.log import keys, topic, topics
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.producers import PRODUCER_ID_BYTES_MAX
from fairlead_messaging.server.store.ordered_kv import Snapshot
from fairlead_wire import delivery_policy
from fairlead_wire.delivery_policy import DeliveryPolicy
from fairlead_wire.validation.mistakes import Mistake, Wrong
from fairlead_wire.validation.reader import STRUCTS

# --- Endpoints.

URL_CHARS_MAX = 2048
RETRY_AFTER_SECONDS_MAX = 3600
"""The longest wait that an endpoint may ask for."""

RETRIED_STATUSES = frozenset({408, 425, 429})


def is_endpoint_url(url: str) -> bool:
    """Whether messages may be pushed to this URL, as far as its text tells."""
    try:
        parts = urlsplit(url)
        if len(url) > URL_CHARS_MAX or parts.scheme not in ("http", "https") or not parts.hostname:
            return False
        if parts.port == 0 or not url.isprintable() or " " in url:  # ``port`` raises if it is not a number
            return False
    except ValueError:
        return False
    try:
        return is_endpoint_address(parts.hostname)
    except ValueError:
        return True  # a name: every connection resolves it and checks its address


def is_endpoint_address(address: str) -> bool:
    """Whether messages may be pushed to this address: not to link-local ones, like the metadata service of a cloud.

    Private networks and loopback are allowed, because endpoints are there.
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    found = mapped or found
    return not (found.is_link_local or found.is_multicast or found.is_unspecified)


def is_delivered_status(status: int) -> bool:
    return 200 <= status < 300


def is_final_status(status: int) -> bool:
    """Whether a repeat would get the same answer, as after all but server errors and "try later".

    That includes codes that HTTP does not define, such as 999.
    """
    return not 500 <= status < 600 and status not in RETRIED_STATUSES


# --- Dead letters.


def dead_letter_topic_names(text: Any) -> tuple[str, str]:
    """(namespace, name) of ``namespace/name``.  Raises: Refused."""
    namespace, slash, name = text.partition("/") if isinstance(text, str) else ("", "", "")
    if not slash:
        raise Refused("dead_letter_topic must be namespace/name", code="bad_subscription")
    return topic.check_name("namespace", namespace), topic.check_name("topic", name)


def dead_letter_producer_id(name: tuple[str, str, str], position: str) -> str:
    """The producer id of a dead letter: a digest, because three names of full length would be too long."""
    plain = f"subscription/{'/'.join(name)}/{position}"
    if len(plain) <= PRODUCER_ID_BYTES_MAX:
        return plain
    return f"subscription/{hashlib.sha256('/'.join(name).encode()).hexdigest()}/{position}"


SUBSCRIPTIONS_MAX = 1000
"""The limit over all topics."""


class GivenUpMessage(msgspec.Struct, frozen=True):
    """A given-up message whose dead letter is not written yet, and why it was given up."""

    id: str
    reason: str


class SubscriptionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The durable record.  ``position`` (hex, exclusive) is the last message delivered or given up.

    ``delivery``: its own delivery policy as it was given, None for none; see ``effective_policy``.
    ``revision`` changes with each put of the subscription; outcomes of deliveries under an earlier one are refused.
    Times are in milliseconds.
    """

    url: str
    delivery: dict[str, Any] | None = msgspec.field(default=None, name="own_delivery")
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
    undeliverable: tuple[GivenUpMessage, ...] = ()
    dead_letter_error: str = ""
    """Why the last dead letter could not be written; "" if it could."""
    revision: str = ""
    attempts_under: str = ""
    """Digest of the policy under which ``attempts`` were counted; "" while there were none."""

    @property
    def policy(self) -> DeliveryPolicy | None:
        """Its own policy; an empty object counts as none (as in Zaqar)."""
        return delivery_policy.parse(self.delivery) if self.delivery else None

    @property
    def state(self) -> str:
        """``delivering``, ``retrying`` (a message failed) or ``dead_letters_waiting`` (their topic takes none)."""
        if self.undeliverable:
            return "dead_letters_waiting"
        return "retrying" if self.attempts else "delivering"

    @property
    def reason(self) -> str:
        """The reason for the state; "" while all is well."""
        if self.undeliverable:
            return (
                f"{len(self.undeliverable)} dead letters cannot be written to {self.dead_letter_topic}: "
                f"{self.dead_letter_error}"
            )
        return self.last_error if self.attempts else ""

    @property
    def after(self) -> MessageId:
        """The exclusive start of its next page."""
        return parse_hex(self.position) if self.position else FIRST

    @property
    def oldest_needed(self) -> MessageId:
        """The id (exclusive) after which not all messages are counted yet."""
        return min([self.after, *(before(parse_hex(each.id)) for each in self.undeliverable)])


def parse(raw: object) -> SubscriptionRecord:
    """Parse a caller's request.  Raises: Refused naming everything that is wrong."""
    wrong = [*STRUCTS.find(raw, SubscriptionRequest)]
    said = raw if isinstance(raw, dict) else {}
    if isinstance(said.get("url"), str) and not is_endpoint_url(said["url"]):
        wrong.append(Mistake("url", "must be http:// or https:// with a host that is not link-local"))
    policy: dict[str, Any] | None = None
    if isinstance(said.get("delivery"), dict):
        try:
            policy = topic.given_policy(said["delivery"])
        except Wrong as error:
            wrong += error.mistakes
    if isinstance(said.get("dead_letter_topic"), str):
        try:
            dead_letter_topic_names(said["dead_letter_topic"])
        except Refused as refused:
            wrong.append(Mistake("", refused.message))
    if wrong:
        raise Refused("; ".join(map(str, wrong)), code="bad_subscription")
    asked = msgspec.convert(raw, SubscriptionRequest)
    return SubscriptionRecord(url=asked.url, delivery=policy, dead_letter_topic=asked.dead_letter_topic)


def of_topic(snapshot: Snapshot, living: TopicGeneration) -> dict[str, SubscriptionRecord]:
    """The subscriptions of this generation, by name."""
    prefix = keys.table(keys.SUBSCRIPTION, living)
    return {key[len(prefix) :].decode(): decode(raw) for key, raw in snapshot.scan(prefix, keys.above(prefix))}


def every(snapshot: Snapshot) -> Iterator[tuple[TopicGeneration, str, SubscriptionRecord]]:
    """(topic, name, record) of every subscription of an existing topic."""
    living: dict[bytes, TopicGeneration | None] = {}
    for key, raw in snapshot.scan(keys.SUBSCRIPTION, keys.above(keys.SUBSCRIPTION)):
        namespace, name, rest = key[1:].split(b":", 2)
        generation, subscription = rest[:4], rest[4:]
        place = key[: len(key) - len(subscription)]
        if place not in living:
            try:
                found = topics.lookup(snapshot, namespace.decode(), name.decode())
                living[place] = found if found.generation == int.from_bytes(generation, "big") else None
            except NotFound:
                living[place] = None
        owner = living[place]
        if owner is not None:
            yield owner, subscription.decode(), decode(raw)


def encode(record: SubscriptionRecord) -> bytes:
    return msgspec.json.encode(record)


def decode(raw: bytes) -> SubscriptionRecord:
    return msgspec.json.decode(raw, type=SubscriptionRecord)


# --- The delivery policy in effect: the subscription's own, its topic's, or the default.
# Policies are never merged key by key. ``ignore_subscription_override`` in the topic's policy overrules the
# subscription's; in the subscription's own policy it makes the topic's apply (seed: support more backoff functions; as
# in Zaqar). An empty object counts as none: a subscription with ``{}`` has its topic's policy.

DIGEST_BYTES = 8


def effective_policy(topic: TopicGeneration, record: SubscriptionRecord) -> DeliveryPolicy:
    return delivery_policy.choose(topic.policy, record.policy)


def policy_digest(policy: DeliveryPolicy) -> str:
    """A digest that differs for different policies, because attempts under one do not count under another."""
    return hashlib.blake2b(msgspec.json.encode(policy), digest_size=DIGEST_BYTES).hexdigest()
