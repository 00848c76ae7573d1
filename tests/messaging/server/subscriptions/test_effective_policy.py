"""Which delivery policy counts."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.subscriptions import effective_policy
from fairlead_messaging.server.subscriptions.subscription import SubscriptionRecord
from fairlead_wire.delivery_policy import DeliveryPolicy

SLOW, FAST = {"minimum_delay": 20, "maximum_delay": 30}, {"minimum_delay": 1, "maximum_delay": 3}
RULES = {**SLOW, "ignore_subscription_override": True}


@pytest.mark.parametrize(
    ("of_topic", "own", "counts"),
    [
        (None, None, {}),
        (SLOW, None, SLOW),
        (None, FAST, FAST),
        (SLOW, FAST, FAST),
        (RULES, FAST, RULES),
        (SLOW, {**FAST, "ignore_subscription_override": True}, SLOW),
        (SLOW, {}, SLOW),
        ({}, FAST, FAST),
        ({}, {**FAST, "ignore_subscription_override": True}, {}),
        (None, {}, {}),
    ],
)
def test_whole_policies_count(
    of_topic: dict[str, Any] | None, own: dict[str, Any] | None, counts: dict[str, Any]
) -> None:
    """The subscription's, else the topic's, else the default; the topic's when it says so."""
    topic = TopicGeneration(namespace="n", name="t", generation=1, ttl_seconds=5, delivery=of_topic)
    record = SubscriptionRecord(url="http://x", delivery=own)
    assert effective_policy.of(topic, record) == DeliveryPolicy(**counts)


def test_a_digest_differs_where_policies_do() -> None:
    """What is given and what is the default alike are one policy."""
    assert effective_policy.digest(DeliveryPolicy()) == effective_policy.digest(DeliveryPolicy(minimum_delay=5))
    assert effective_policy.digest(DeliveryPolicy()) != effective_policy.digest(DeliveryPolicy(minimum_delay=6))
