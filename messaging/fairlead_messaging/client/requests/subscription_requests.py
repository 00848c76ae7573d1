"""Subscriptions: put, looked at, deleted."""

from __future__ import annotations

from fairlead_messaging.api import error_codes, routes
from fairlead_messaging.api.requests import (
    SubscriptionRequest,
)
from fairlead_messaging.api.responses import (
    Subscription,
)
from fairlead_messaging.client.errors import Denied
from fairlead_messaging.client.request import ClientRequest, ask, gone, order
from fairlead_messaging.client.requests.policy import given
from fairlead_wire.delivery_policy import DeliveryPolicy


def put_subscription(
    namespace: str,
    name: str,
    subscription: str,
    *,
    url: str,
    delivery: DeliveryPolicy | None = None,
    dead_letter_topic: str | None = None,
) -> ClientRequest[None]:
    """Push committed messages to ``url`` from now on; put again it changes and keeps its place.

    ``delivery``: its own policy; without it the topic's counts, else the default.
    ``dead_letter_topic`` (``namespace/name``) gets what could not be delivered; without it that is counted.
    """
    policy = given(delivery) if delivery is not None else None
    body = SubscriptionRequest(url=url, delivery=policy, dead_letter_topic=dead_letter_topic)
    return order(routes.PUT_SUBSCRIPTION, namespace, name, subscription, body=body)


def subscription(namespace: str, name: str, subscription: str) -> ClientRequest[Subscription]:
    """One subscription and how it goes."""
    return ask(routes.GET_SUBSCRIPTION, namespace, name, subscription)


def subscriptions(namespace: str, name: str) -> ClientRequest[list[Subscription]]:
    """All subscriptions of a topic, by name."""
    return ask(routes.SUBSCRIPTIONS, namespace, name)


def delete_subscription(namespace: str, name: str, subscription: str) -> ClientRequest[None]:
    """Nothing more is pushed to it."""
    missing = gone(Denied, error_codes.SUBSCRIPTION_NOT_FOUND)
    return order(routes.DELETE_SUBSCRIPTION, namespace, name, subscription, on_refusal=missing)
