"""Publish and poll (seed: transactional messaging, "Publish Message", "Consume Message")."""

from __future__ import annotations

import time

from aiohttp import web

from fairlead_messaging import arrow, bodies, reader, topics
from fairlead_messaging.commands import Publish, Published
from fairlead_messaging.errors import Refused
from fairlead_messaging.io import rest_bulk
from fairlead_messaging.io.http import BROKER, JSON, METRICS, NEXT_POSITION, body, check_content_type
from fairlead_messaging.kv import Snapshot
from fairlead_messaging.reader import Page


async def publish(request: web.Request) -> web.Response:
    started = time.perf_counter()
    broker, metrics = request.app[BROKER], request.app[METRICS]
    namespace, name = request.match_info["namespace"], request.match_info["topic"]
    broker.topic(namespace, name)
    check_content_type(request, JSON)
    raw = await body(request)
    asked = bodies.decode(raw, bodies.PublishBody)
    messages, producer = bodies.messages(asked), bodies.producer(asked)
    if asked.transactionWritePointer is None and not messages:
        raise Refused("without a transaction there must be messages", code="no_messages")
    answer: Published = await broker.change(
        Publish(namespace=namespace, name=name, messages=messages, producer=producer), len(raw)
    )
    stored = len(messages) - len(answer.known)
    topic = f"{namespace}/{name}"
    metrics.published.labels(topic).inc(stored)
    metrics.published_bytes.labels(topic).inc(sum(len(message.payload) for message in messages) if stored else 0)
    metrics.publish_seconds.observe(time.perf_counter() - started)
    if producer is None:
        return web.Response()
    metrics.known.labels(topic).inc(len(answer.known))
    return web.Response(body=bodies.encode_published(answer), content_type=JSON)


async def poll(request: web.Request) -> web.Response:
    started = time.perf_counter()
    broker, metrics = request.app[BROKER], request.app[METRICS]
    namespace, name = request.match_info["namespace"], request.match_info["topic"]
    broker.topic(namespace, name)
    if arrow.CONTENT_TYPE in request.headers.get("Accept", ""):
        return await rest_bulk.poll(request)
    check_content_type(request, JSON)
    asked = bodies.decode(await body(request) or b"{}", bodies.PollBody)
    after = bodies.start(asked)
    limit = bodies.limit(asked.limit, broker.settings.poll_limit_max)

    def look(snapshot: Snapshot) -> Page:
        nonlocal after
        page = reader.read(
            snapshot,
            topics.lookup(snapshot, namespace, name),
            after=after,
            limit=limit,
            bytes_max=broker.settings.poll_bytes_max,
            now_ms=broker.now_ms(),
        )
        after = page.next_position
        return page

    page = await broker.read_until((namespace, name), look, lambda page: bool(page.ids), bodies.wait_ms(asked.wait_ms))
    metrics.polled.labels(f"{namespace}/{name}").inc(len(page.ids))
    metrics.poll_seconds.observe(time.perf_counter() - started)
    return web.Response(
        body=bodies.encode_page(page), content_type=JSON, headers={NEXT_POSITION: page.next_position.hex()}
    )
