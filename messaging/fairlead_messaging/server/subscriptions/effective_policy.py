"""The delivery policy that counts for a subscription: its own, its topic's, or the default.

Whole policies, never merged key by key.  ``ignore_subscription_override`` of the topic's policy refuses the
subscription's; in the subscription's own policy it renounces it (seed: support more backoff functions; as Zaqar does).
An empty object is none: a subscription with ``{}`` has its topic's policy.
"""

from __future__ import annotations

import hashlib

import msgspec

from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.subscriptions.subscription import SubscriptionRecord
from fairlead_wire import delivery_policy
from fairlead_wire.delivery_policy import DeliveryPolicy

DIGEST_BYTES = 8


def of(topic: TopicGeneration, record: SubscriptionRecord) -> DeliveryPolicy:
    return delivery_policy.choose(topic.policy, record.policy)


def digest(policy: DeliveryPolicy) -> str:
    """Differs for different policies: attempts counted under one say nothing under another."""
    return hashlib.blake2b(msgspec.json.encode(policy), digest_size=DIGEST_BYTES).hexdigest()
