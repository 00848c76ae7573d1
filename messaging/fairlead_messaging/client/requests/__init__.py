"""Every request a client can make of the messaging service.

    publish(…) ─→ Request ─(a client sends it)→ Response ─read→ Published, or an error of ``errors``

Paths, bodies and answers are those of ``api``.  A function's arguments and its text are those of the method of the same
name on both clients.

Modules are named after what the requests are about; all of them are used from here: ``requests.publish``.
"""

from __future__ import annotations

from fairlead_messaging.client.requests.bulk_requests import note_reader, offsets, plan, poll_arrow, readers
from fairlead_messaging.client.requests.message_requests import inspect, poll, publish
from fairlead_messaging.client.requests.subscription_requests import (
    delete_subscription,
    put_subscription,
    subscription,
    subscriptions,
)
from fairlead_messaging.client.requests.topic_requests import (
    create_topic,
    delete_topic,
    namespaces,
    topic,
    topics,
    update_topic,
)
from fairlead_messaging.client.requests.transaction_requests import (
    finish_transaction,
    publish_in,
    renew_transaction,
    roll_back,
    start_transaction,
    store_in,
    transactions,
)

__all__ = [
    "create_topic",
    "delete_subscription",
    "delete_topic",
    "finish_transaction",
    "inspect",
    "namespaces",
    "note_reader",
    "offsets",
    "plan",
    "poll",
    "poll_arrow",
    "publish",
    "publish_in",
    "put_subscription",
    "readers",
    "renew_transaction",
    "roll_back",
    "start_transaction",
    "store_in",
    "subscription",
    "subscriptions",
    "topic",
    "topics",
    "transactions",
    "update_topic",
]
