"""The REST interface: topics (seed: transactional messaging, "APIs"), and the routes of the other handlers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from aiohttp import web

from fairlead_messaging.api import openapi, responses
from fairlead_messaging.api import routes as api
from fairlead_messaging.api.errors import OverQuota, Unavailable
from fairlead_messaging.api.headers import JSON
from fairlead_messaging.api.responses import Health
from fairlead_messaging.api.routes import ApiRoute
from fairlead_messaging.server import inspection, json_bodies
from fairlead_messaging.server.commands import CreateTopic, DeleteTopic, UpdateTopic
from fairlead_messaging.server.io import access_control
from fairlead_messaging.server.io.access_control import AccessControl
from fairlead_messaging.server.io.broker import SYSTEM_NAMESPACE, Broker
from fairlead_messaging.server.io.metrics import MessagingMetrics
from fairlead_messaging.server.io.pusher import Pusher
from fairlead_messaging.server.io.quota_keeper import QuotaKeeper
from fairlead_messaging.server.io.rest import authorization, backup, bulk, messages, subscriptions, transactions
from fairlead_messaging.server.io.rest.http import (
    ACCESS,
    BROKER,
    METRICS,
    PUSHER,
    QUOTAS,
    SPANS,
    Handler,
    body,
    caller_of,
    errors_as_json,
    json_response,
)
from fairlead_messaging.server.log import topics
from fairlead_messaging.server.log.topic import parse_properties
from fairlead_wire.io.spans import Spans


def application(
    broker: Broker, metrics: MessagingMetrics, spans: Spans | None = None, access: AccessControl | None = None
) -> web.Application:
    """The application; by default with the ``access`` of the settings of ``broker``."""
    app = web.Application(
        middlewares=[errors_as_json, authorization.admit], client_max_size=broker.settings.body_bytes_max
    )
    app[BROKER] = broker
    app[METRICS] = metrics
    app[SPANS] = spans
    app[ACCESS] = access or access_control.of_settings(broker.settings, metrics)
    app[authorization.ROUTE_OF] = {handler: route for route, handler in _HANDLERS.items()}
    app[QUOTAS] = QuotaKeeper(broker, broker.quotas, metrics)
    app[PUSHER] = Pusher(broker, metrics, app[QUOTAS].storing)
    app.on_startup.append(_start_quotas)
    app.on_cleanup.append(_stop_quotas)
    app.on_startup.append(_start_pushing)
    app.on_cleanup.append(_stop_pushing)
    _add(app, api.ROUTES)
    return app


async def _start_quotas(app: web.Application) -> None:
    await app[QUOTAS].start()


async def _stop_quotas(app: web.Application) -> None:
    await app[QUOTAS].close()


async def _start_pushing(app: web.Application) -> None:
    await app[PUSHER].start()


async def _stop_pushing(app: web.Application) -> None:
    await app[PUSHER].close()


def health_application(broker: Broker, metrics: MessagingMetrics) -> web.Application:
    app = web.Application(middlewares=[errors_as_json])
    app[BROKER] = broker
    app[METRICS] = metrics
    add_health(app)
    return app


def add_health(app: web.Application) -> None:
    _add(app, api.HEALTH_ROUTES)


def _add(app: web.Application, routes: Iterable[ApiRoute[Any]]) -> None:
    for route in routes:
        handler = _HANDLERS[route]
        if route.method == "GET":
            app.router.add_get(route.path, handler)  # HEAD, too
        else:
            app.router.add_route(route.method, route.path, handler)


def names(request: web.Request) -> tuple[str, str]:
    """(namespace, topic) of the path."""
    return request.match_info["namespace"], request.match_info["topic"]


async def create_topic(request: web.Request) -> web.Response:
    broker = request.app[BROKER]
    namespace, name = names(request)
    raw = json_bodies.decode_properties(await body(request))
    ttl, texts, policy = parse_properties(raw, broker.settings.default_ttl_seconds)
    command = CreateTopic(namespace=namespace, name=name, ttl_seconds=ttl, properties=texts, delivery=policy)
    try:
        await broker.change(command)
    except OverQuota:
        request.app[QUOTAS].refused_topic(namespace)
        raise
    return web.Response()


async def update_topic(request: web.Request) -> web.Response:
    broker = request.app[BROKER]
    namespace, name = names(request)
    before = broker.topic(namespace, name)  # a missing topic is reported before an invalid body
    raw = json_bodies.decode_properties(await body(request))
    ttl, texts, policy = parse_properties(raw, broker.settings.default_ttl_seconds)
    await broker.change(UpdateTopic(namespace=namespace, name=name, ttl_seconds=ttl, properties=texts, delivery=policy))
    if policy != before.delivery:
        await request.app[PUSHER].check()  # subscriptions that use the topic's policy follow it at once
    return web.Response()


async def get_topic(request: web.Request) -> web.Response:
    topic = request.app[BROKER].topic(*names(request))
    return json_response(responses.Topic(topic.name, topic.shown_properties()))


async def delete_topic(request: web.Request) -> web.Response:
    namespace, name = names(request)
    await request.app[BROKER].change(DeleteTopic(namespace=namespace, name=name))
    return web.Response()


async def list_topics(request: web.Request) -> web.Response:
    namespace, caller = request.match_info["namespace"], caller_of(request)
    found = await request.app[BROKER].read(lambda snapshot: topics.names(snapshot, namespace))
    return json_response([name for name in found if caller.sees(namespace, name)])


async def list_namespaces(request: web.Request) -> web.Response:
    """Answer the namespaces that have a topic which the caller may know of."""
    caller = caller_of(request)
    found = await request.app[BROKER].read(topics.every)
    return json_response(
        sorted({each.namespace for each in found if each.exists and caller.sees(each.namespace, each.name)})
    )


async def healthz(request: web.Request) -> web.Response:
    return json_response(Health(status="ok"))


async def readyz(request: web.Request) -> web.Response:
    broker = request.app[BROKER]
    if broker.closing:
        return json_response(Health(status="stopping"), status=503)
    if not await broker.is_writable():
        return json_response(Health(status="the store cannot be written"), status=503)
    await broker.read(lambda snapshot: topics.names(snapshot, SYSTEM_NAMESPACE), probe=True)
    # Calls without transactions still work: 503 would take the service from their users too.
    trouble = await broker.transactions_trouble()
    return json_response(
        Health(status="ready", service=broker.service_id, transactions=f"unavailable: {trouble}" if trouble else None)
    )


async def metrics_text(request: web.Request) -> web.Response:
    broker, metrics = request.app[BROKER], request.app[METRICS]
    metrics.batches.set(broker.committer.batches)
    metrics.failures.set(broker.committer.failures)
    metrics.waiting.set(broker.committer.waiting)
    metrics.long_polls.set(broker.notifier.waiting)
    metrics.body_bytes.set(broker.bodies.in_use)
    metrics.page_bytes.set(broker.pages.in_use)
    metrics.removed.set(broker.cleaner.removed_rows)
    metrics.cleanups.set(broker.cleaner.cleanups)
    metrics.cache_bytes.set(broker.cache.size)
    metrics.cache_hits.set(broker.cache.hits)
    metrics.cache_misses.set(broker.cache.misses)
    metrics.transaction_failures.set(broker.transaction_failures)
    now_ms = broker.now_ms()
    metrics.show_transactions(broker.in_progress, broker.unmarked, broker.oldest_start_ms, broker.keeper.ended, now_ms)
    try:
        metrics.transactions_unavailable.set(1 if await broker.transactions_trouble() else 0)
        metrics.show_topic_stats(await broker.read(partial(inspection.topic_stats, now_ms=now_ms), probe=True))
    except Unavailable:
        # If the store cannot be read, show all other metrics.
        metrics.transactions_unavailable.set(1)
        metrics.show_topic_stats([])
    return web.Response(body=metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


async def openapi_document(request: web.Request) -> web.Response:
    return web.Response(body=_DOCUMENT, content_type=JSON)


_DOCUMENT = openapi.encode()
_HANDLERS: dict[ApiRoute[Any], Handler] = {
    api.CREATE_TOPIC: create_topic,
    api.TOPIC_PROPERTIES: get_topic,
    api.DELETE_TOPIC: delete_topic,
    api.UPDATE_TOPIC: update_topic,
    api.NAMESPACES: list_namespaces,
    api.TOPICS: list_topics,
    api.PUBLISH: messages.publish,
    api.STORE: messages.store,
    api.ROLLBACK: messages.rollback,
    api.POLL: messages.poll,
    api.INSPECT: messages.inspect_topic,
    api.PLAN: bulk.plan,
    api.OFFSETS: bulk.offsets,
    api.NOTE_READER: bulk.note_reader,
    api.READERS: bulk.list_readers,
    api.START: transactions.start,
    api.LIST_TRANSACTIONS: transactions.list_some,
    api.RENEW: transactions.renew,
    api.COMMIT: transactions.commit,
    api.ABORT: transactions.abort,
    api.INVALIDATE: transactions.invalidate,
    api.PUT_SUBSCRIPTION: subscriptions.put,
    api.GET_SUBSCRIPTION: subscriptions.get,
    api.DELETE_SUBSCRIPTION: subscriptions.delete,
    api.SUBSCRIPTIONS: subscriptions.list_all,
    api.BACKUP: backup.take,
    api.OPENAPI: openapi_document,
    api.HEALTHZ: healthz,
    api.READYZ: readyz,
    api.METRICS: metrics_text,
}
"""A route of the contract without a handler fails at start-up."""
