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

from collections.abc import Iterator

import msgspec

from fairlead_messaging.api.errors import NotFound, Refused
from fairlead_messaging.api.message_id import FIRST, MessageId, before, parse_hex
from fairlead_messaging.server.log import keys, topics
from fairlead_messaging.server.log.topic import Topic
from fairlead_messaging.server.store.ordered_kv import Snapshot
from fairlead_messaging.server.subscriptions import dead_letter, endpoint
from fairlead_wire import delivery
from fairlead_wire.delivery import DeliveryPolicy
from fairlead_wire.validation.mistakes import Wrong

SUBSCRIPTIONS_MAX = 1000
"""Over all topics."""


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
    def after(self) -> MessageId:
        """Where its next page begins, exclusive."""
        return parse_hex(self.position) if self.position else FIRST

    @property
    def oldest_needed(self) -> MessageId:
        """Exclusive: messages after this id are not all counted yet."""
        return min([self.after, *(before(parse_hex(each.id)) for each in self.undeliverable)])


def parse(raw: object) -> Subscription:
    """What a caller may say of one: ``url``, ``delivery``, ``dead_letter_topic``.

    Raises: Refused naming the key.
    """
    if not isinstance(raw, dict) or set(raw) - {"url", "delivery", "dead_letter_topic"}:
        raise Refused("a subscription has url, delivery and dead_letter_topic", code="bad_subscription")
    url = raw.get("url")
    if not isinstance(url, str) or not endpoint.is_url(url):
        raise Refused("url must be http:// or https:// with a host that is not link-local", code="bad_subscription")
    try:
        policy = delivery.parse(raw["delivery"]) if raw.get("delivery") is not None else DeliveryPolicy()
    except Wrong as error:
        raise Refused(f"delivery: {error.sentence}", code="bad_subscription") from None
    dead_letters = raw.get("dead_letter_topic")
    if dead_letters is not None:
        dead_letter.topic_names(dead_letters)
    return Subscription(url=url, delivery=policy, dead_letter_topic=dead_letters)


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
