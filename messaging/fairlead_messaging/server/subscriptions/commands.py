"""What the one writer can be asked to change about subscriptions."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead_messaging.server.commands import TopicCommand
from fairlead_messaging.server.subscriptions.subscription import SubscriptionRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class PutSubscription(TopicCommand[None]):
    """Create a subscription at the record's position, or change an existing one where it stands."""

    subscription: str
    record: SubscriptionRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDelivery(TopicCommand[None]):
    """How its deliveries went; ``policy`` is the digest of the delivery policy they went by.

    NotFound when it was deleted meanwhile, or its topic is of another generation; Conflict when it, or the policy that
    counts for it, was changed.
    """

    generation: int
    subscription: str
    record: SubscriptionRecord
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSubscription(TopicCommand[None]):
    """Nothing more is delivered for it."""

    subscription: str


SubscriptionCommand = PutSubscription | RecordDelivery | DeleteSubscription
