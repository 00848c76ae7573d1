"""Changing the subscriptions of a topic."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from fairlead_messaging.api.errors import Conflict, NotFound, Refused
from fairlead_messaging.server.commands import TopicCommand
from fairlead_messaging.server.log import keys, topic
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.store.ordered_kv import Batch, OrderedKV
from fairlead_messaging.server.subscriptions import subscription
from fairlead_messaging.server.subscriptions.subscription import SUBSCRIPTIONS_MAX, SubscriptionRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class PutSubscription(TopicCommand[None]):
    """Create a subscription at the record's position, or change an existing one, which keeps its position."""

    subscription: str
    record: SubscriptionRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDelivery(TopicCommand[None]):
    """The outcome of deliveries; ``policy`` is the digest of the delivery policy they followed.

    NotFound if it was deleted meanwhile, or its topic has another generation; Conflict if the subscription or its
    effective policy was changed.
    """

    generation: int
    subscription: str
    record: SubscriptionRecord
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSubscription(TopicCommand[None]):
    """Delete a subscription; nothing more is delivered for it."""

    subscription: str


SubscriptionCommand = PutSubscription | RecordDelivery | DeleteSubscription


def change(kv: OrderedKV, living: TopicGeneration, command: SubscriptionCommand, batch: Batch) -> None:
    """Raises: NotFound if there is none, Refused for an invalid name, an invalid dead letter topic or too many.

    A record of another generation, revision or policy is outdated: NotFound or Conflict.
    """
    topic.check_name("subscription", command.subscription)
    key = keys.subscription(living, command.subscription)
    raw = batch.latest(key, kv)
    match command:
        case PutSubscription(record=record):
            if record.dead_letter_topic == f"{living.namespace}/{living.name}":
                raise Refused("dead_letter_topic must be another topic", code="bad_subscription")
            if raw is None:
                _check_room(kv, living)
            batch.put(key, subscription.encode(_in_place(record, raw)))
        case RecordDelivery(record=record):
            if command.generation != living.generation:
                raise _missing(command.subscription)
            stored = subscription.decode(_required(raw, command.subscription))
            policy = subscription.policy_digest(subscription.effective_policy(living, stored))
            if stored.revision != record.revision or policy != command.policy:
                raise Conflict(f"subscription {command.subscription} was changed", code="subscription_changed")
            batch.put(key, subscription.encode(record))
        case DeleteSubscription():
            _required(raw, command.subscription)
            batch.delete(key)


def _required(raw: bytes | None, name: str) -> bytes:
    if raw is None:
        raise _missing(name)
    return raw


def _missing(name: str) -> NotFound:
    return NotFound(f"subscription {name} does not exist", code="subscription_not_found")


def _in_place(record: SubscriptionRecord, raw: bytes | None) -> SubscriptionRecord:
    """The record of a changed subscription: it keeps its position, and its attempts start from zero."""
    if raw is None:
        return record
    found = subscription.decode(raw)
    return msgspec.structs.replace(
        record,
        position=found.position,
        delivered=found.delivered,
        dead_lettered=found.dead_lettered,
        dropped=found.dropped,
        expired=found.expired,
        undeliverable=found.undeliverable,
        dead_letter_error=found.dead_letter_error,
    )


def _check_room(kv: OrderedKV, living: TopicGeneration) -> None:
    with kv.snapshot() as snapshot:
        count = sum(1 for _ in snapshot.scan(keys.SUBSCRIPTION, keys.above(keys.SUBSCRIPTION)))
    if count >= SUBSCRIPTIONS_MAX:
        raise Refused(f"at most {SUBSCRIPTIONS_MAX} subscriptions", code="too_many_subscriptions")
