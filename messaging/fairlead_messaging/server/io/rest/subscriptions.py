"""Subscriptions over HTTP: create, change, show and delete them."""

from __future__ import annotations

import secrets

import msgspec
from aiohttp import web

from fairlead_messaging.api import responses
from fairlead_messaging.api.errors import NotFound
from fairlead_messaging.api.verbs import Verb
from fairlead_messaging.server import json_bodies
from fairlead_messaging.server.io.rest.authorization import check
from fairlead_messaging.server.io.rest.http import BROKER, PUSHER, body, json_response
from fairlead_messaging.server.log import bulk, topics
from fairlead_messaging.server.log.topic import TopicGeneration
from fairlead_messaging.server.store.ordered_kv import Snapshot
from fairlead_messaging.server.subscriptions import subscription
from fairlead_messaging.server.subscriptions.changes import DeleteSubscription, PutSubscription
from fairlead_messaging.server.subscriptions.subscription import SubscriptionRecord
from fairlead_messaging.server.transactions import visibility
from fairlead_messaging.server.transactions.transaction import TransactionView


def _name(request: web.Request) -> tuple[str, str, str]:
    found = request.match_info
    return found["namespace"], found["topic"], found["subscription"]


async def put(request: web.Request) -> web.Response:
    """Create a subscription from now on, or change one that keeps its position."""
    broker = request.app[BROKER]
    namespace, topic, name = _name(request)
    broker.topic(namespace, topic)
    record = subscription.parse(json_bodies.decode(await body(request), object))
    if record.dead_letter_topic:  # undeliverable messages are published there on behalf of this caller
        check(request, Verb.PUBLISH, *subscription.dead_letter_topic_names(record.dead_letter_topic))

    def latest(snapshot: Snapshot) -> str:
        living = topics.lookup(snapshot, namespace, topic)
        held = visibility.first_uncommitted(snapshot, TransactionView(snapshot), living, now_ms=broker.now_ms())
        return bulk.shown(bulk.last_stable(snapshot, living, held))

    start = msgspec.structs.replace(record, position=await broker.read(latest), revision=secrets.token_hex(8))
    await broker.change(PutSubscription(namespace=namespace, name=topic, subscription=name, record=start))
    request.app[PUSHER].renew((namespace, topic, name))
    return web.Response()


async def get(request: web.Request) -> web.Response:
    namespace, topic, name = _name(request)
    living, found = await _all(request, namespace, topic)
    if name not in found:
        raise NotFound(f"subscription {name} does not exist", code="subscription_not_found")
    return json_response(_shown(request, living, name, found[name]))


async def list_all(request: web.Request) -> web.Response:
    living, found = await _all(request, request.match_info["namespace"], request.match_info["topic"])
    return json_response([_shown(request, living, name, record) for name, record in found.items()])


async def delete(request: web.Request) -> web.Response:
    namespace, topic, name = _name(request)
    await request.app[BROKER].change(DeleteSubscription(namespace=namespace, name=topic, subscription=name))
    request.app[PUSHER].renew((namespace, topic, name))
    return web.Response()


async def _all(
    request: web.Request, namespace: str, topic: str
) -> tuple[TopicGeneration, dict[str, SubscriptionRecord]]:
    def query(snapshot: Snapshot) -> tuple[TopicGeneration, dict[str, SubscriptionRecord]]:
        living = topics.lookup(snapshot, namespace, topic)
        return living, subscription.of_topic(snapshot, living)

    return await request.app[BROKER].read(query)


def _shown(
    request: web.Request, living: TopicGeneration, name: str, record: SubscriptionRecord
) -> responses.Subscription:
    trouble = request.app[PUSHER].trouble((living.namespace, living.name, name))
    shown = msgspec.structs.asdict(record)
    waiting = shown.pop("undeliverable")
    del shown["attempts_under"]
    return responses.Subscription(
        name=name,
        **shown,
        effectiveDelivery=subscription.effective_policy(living, record),
        waiting_dead_letters=len(waiting),
        state="paused" if trouble else record.state,
        reason=trouble or record.reason,
    )
