"""Publish and poll (seed: transactional messaging, "Publish Message", "Consume Message")."""

from __future__ import annotations

import time

from aiohttp import web

from fairlead_messaging import bodies
from fairlead_messaging.commands import Publish, Published
from fairlead_messaging.errors import Refused
from fairlead_messaging.io.http import BROKER, JSON, METRICS, body, check_content_type

NEXT_POSITION = "Fairlead-Next-Position"


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
    check_content_type(request, JSON)
    raw = await body(request)
    asked = bodies.decode(raw or b"{}", bodies.PollBody)
    page = await broker.poll(
        namespace,
        name,
        after=bodies.start(asked),
        limit=bodies.limit(asked.limit, broker.settings.poll_limit_max),
        wait_ms=bodies.wait_ms(asked.wait_ms),
    )
    metrics.polled.labels(f"{namespace}/{name}").inc(len(page.ids))
    metrics.poll_seconds.observe(time.perf_counter() - started)
    return web.Response(
        body=bodies.encode_page(page), content_type=JSON, headers={NEXT_POSITION: page.next_position.hex()}
    )
