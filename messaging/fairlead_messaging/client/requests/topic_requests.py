"""Topics: made, changed, listed, deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead_messaging.api import routes
from fairlead_messaging.client.errors import Denied, TopicExists, TopicMissing
from fairlead_messaging.client.request import ClientRequest, ask, gone, order, to
from fairlead_messaging.client.requests.policy import given
from fairlead_wire.delivery_policy import DeliveryPolicy


def create_topic(
    namespace: str,
    name: str,
    properties: Mapping[str, str | int] | None = None,
    *,
    delivery: DeliveryPolicy | None = None,
) -> ClientRequest[bool]:
    """True when this call created it, False when it existed (its properties stay as they are).

    ``delivery``: the policy of its subscriptions that have none of their own.
    After a lost answer and a repeat it may have been this call although it says False.
    """

    def exists(refused: Denied, in_doubt: bool) -> bool:
        if isinstance(refused, TopicExists):
            return False
        raise refused

    body = _properties(properties or {}, delivery)
    return to(routes.CREATE_TOPIC, namespace, name, body=body, decode=lambda _: True, on_refusal=exists)


def _properties(properties: Mapping[str, str | int], delivery: DeliveryPolicy | None) -> dict[str, Any]:
    return dict(properties) if delivery is None else {**properties, "delivery": given(delivery)}


def topic(namespace: str, name: str) -> ClientRequest[dict[str, Any]]:
    """The topic's properties as text, ``ttl`` and ``generation`` always among them; ``delivery`` as it was given."""
    route = routes.TOPIC_PROPERTIES
    return to(route, namespace, name, decode=lambda response: response.json(route.response).properties)


def namespaces() -> ClientRequest[list[str]]:
    """Namespaces that have topics, in order."""
    return ask(routes.NAMESPACES)


def topics(namespace: str) -> ClientRequest[list[str]]:
    """Names of the topics in a namespace, in order."""
    return ask(routes.TOPICS, namespace)


def update_topic(
    namespace: str, name: str, properties: Mapping[str, str | int], *, delivery: DeliveryPolicy | None = None
) -> ClientRequest[None]:
    """Replaces all properties; what is not named returns to its default.  Running subscriptions go by it at once."""
    return order(routes.UPDATE_TOPIC, namespace, name, body=_properties(properties, delivery))


def delete_topic(namespace: str, name: str) -> ClientRequest[None]:
    """Everything in it is unreachable at once; created again it has the next generation."""
    return order(routes.DELETE_TOPIC, namespace, name, on_refusal=gone(TopicMissing))
