"""Publish, store, rollback and poll (seed: transactional messaging, "RESTful")."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from aiohttp import web

from fairlead_messaging.api import responses
from fairlead_messaging.api.errors import Refused
from fairlead_messaging.api.headers import (
    ARROW,
    AVRO,
    FIRST_POSITION,
    GENERATION,
    JSON,
    NEWEST_POSITION,
    NEXT_POSITION,
    SERVICE,
)
from fairlead_messaging.api.message_id import FIRST, id_of
from fairlead_messaging.api.requests import (
    INSPECT_LIMIT_DEFAULT,
    INSPECT_LIMIT_MAX,
    PollRequest,
    PublishRequest,
    RollbackDetail,
)
from fairlead_messaging.server import avro, inspection, json_bodies, page_cache, validation
from fairlead_messaging.server.commands import Publish, PublishedAt
from fairlead_messaging.server.io.broker import Broker
from fairlead_messaging.server.io.committer import LARGE_BYTES
from fairlead_messaging.server.io.rest import authorization, bulk
from fairlead_messaging.server.io.rest.http import (
    BROKER,
    METRICS,
    QUOTAS,
    SPANS,
    body,
    caller_of,
    check_content_type,
    count_decoded,
    json_response,
    send,
)
from fairlead_messaging.server.log import keys, reader, topics
from fairlead_messaging.server.log.rows import Messages
from fairlead_messaging.server.page_cache import CachedPage, PageKey
from fairlead_messaging.server.store.ordered_kv import Snapshot
from fairlead_messaging.server.transactions import visibility
from fairlead_messaging.server.transactions.commands import Rollback, Store
from fairlead_messaging.server.transactions.visibility import TransactionSnapshot
from fairlead_wire.io.spans import recording
from fairlead_wire.traces import span_names, trace


async def publish(request: web.Request) -> web.Response:
    started = time.perf_counter()
    broker, metrics = request.app[BROKER], request.app[METRICS]
    namespace, name = request.match_info["namespace"], request.match_info["topic"]
    broker.topic(namespace, name)
    content_type = check_content_type(request, JSON, AVRO)
    asked, messages, size = await _publish_body(request, content_type)
    producer, pointer = validation.producer(asked), asked.transactionWritePointer
    if pointer is None and not messages:
        raise Refused("without a transaction there must be messages", code="no_messages")
    command = Publish(
        namespace=namespace, name=name, messages=messages, producer=producer, pointer=pointer, by=caller_of(request)
    )
    answer: PublishedAt
    with request.app[QUOTAS].storing(namespace, messages):
        if (spans := request.app[SPANS]) is None:
            answer = await broker.change(command, size)
        else:
            came = trace.parse(request.headers.get(trace.TRACEPARENT))
            named = span_names.of_messages(len(messages), f"{namespace}/{name}", operation="receive")
            with recording(spans.begin(span_names.STORE, came, kind="server", attributes=named)):
                answer = await broker.change(command, size)
    metrics.note_published(f"{namespace}/{name}", messages, len(answer.known))
    metrics.publish_seconds.observe(time.perf_counter() - started)
    if pointer is not None:
        detail = json_bodies.rollback_of(pointer, answer)
        if content_type == AVRO:
            return web.Response(body=avro.encode_rollback(detail), content_type=content_type)
        return json_response(detail)
    if producer is not None:
        return json_response(json_bodies.published_of(answer), headers=_places(answer, broker.service_id))
    return web.Response()


def _places(answer: PublishedAt, service: str) -> dict[str, str]:
    """Headers with the positions of the messages, for clients that issue receipts."""
    found = {SERVICE: service, GENERATION: str(answer.generation)}
    for name, position in ((FIRST_POSITION, answer.first), (NEWEST_POSITION, answer.newest)):
        if position is not None:
            found[name] = id_of(position.encode()).hex()
    return found


async def _publish_body(request: web.Request, content_type: str) -> tuple[PublishRequest, Messages, int]:
    """The body, its messages, and its size in bytes; a large one is decoded in a thread."""
    raw = await body(request)
    bytes_max = request.app[BROKER].settings.bodies_bytes_max - len(raw)
    if content_type == AVRO:
        parse = partial(avro.publish_body, raw, request.query, bytes_max)
    else:
        parse = partial(json_bodies.publish_body, raw, bytes_max)
    asked, messages = _decoded(parse) if len(raw) < LARGE_BYTES else await asyncio.to_thread(_decoded, parse)
    count_decoded(request, validation.check_size(len(messages), bytes_max))
    return asked, messages, len(raw)


def _decoded(parse: Callable[[], PublishRequest]) -> tuple[PublishRequest, Messages]:
    asked = parse()
    return asked, validation.messages(asked)


async def store(request: web.Request) -> web.Response:
    """Payloads for a later publish under the same pointer."""
    broker = request.app[BROKER]
    namespace, name = request.match_info["namespace"], request.match_info["topic"]
    broker.topic(namespace, name)
    content_type = check_content_type(request, JSON, AVRO)
    asked, messages, size = await _publish_body(request, content_type)
    if asked.transactionWritePointer is None or not messages or asked.producer is not None:
        raise Refused("store needs transactionWritePointer and messages, and no producer", code="bad_store")
    pointer = asked.transactionWritePointer
    command = Store(namespace=namespace, name=name, messages=messages, pointer=pointer, by=caller_of(request))
    with request.app[QUOTAS].storing(namespace, messages):
        await broker.change(command, size)
    return web.Response()


async def rollback(request: web.Request) -> web.Response:
    """Roll back a publish; the body is the answer of that publish."""
    broker = request.app[BROKER]
    namespace, name = request.match_info["namespace"], request.match_info["topic"]
    broker.topic(namespace, name)
    content_type = check_content_type(request, JSON, AVRO)
    raw = await body(request)
    is_avro = content_type == AVRO
    asked = avro.rollback_body(raw) if is_avro else json_bodies.decode(raw, RollbackDetail)
    first, last = validation.rollback_range(asked)
    await broker.change(
        Rollback(
            namespace=namespace,
            name=name,
            pointer=asked.transactionWritePointer,
            first=first,
            last=last,
            by=caller_of(request),
        )
    )
    return web.Response()


async def poll(request: web.Request) -> web.StreamResponse:
    if ARROW in request.headers.get("Accept", ""):
        return await bulk.poll(request)
    started = time.perf_counter()
    broker, metrics = request.app[BROKER], request.app[METRICS]
    namespace, name = request.match_info["namespace"], request.match_info["topic"]
    topic = broker.topic(namespace, name)
    content_type = check_content_type(request, JSON, AVRO)
    is_avro = content_type == AVRO
    raw = await body(request)
    asked = avro.poll_body(raw, request.query) if is_avro else json_bodies.decode(raw or b"{}", PollRequest)
    after = validation.start(asked)
    limit = validation.limit(asked.limit, broker.settings.poll_limit_max)
    wait_ms = validation.wait_ms(asked.wait_ms)
    within = visibility.decode_snapshot(asked.transaction) if asked.transaction is not None else None
    key = page_cache.page_key(topic, after, limit, content_type)
    # Only one transaction reads with a given snapshot, so it only uses cached pages that are the same for all.
    isolation = page_cache.ANY if within is not None else asked.isolation or "none"
    kept = broker.cached(topic, key, isolation)
    if kept is None:
        attempt = _Poll(broker, key, isolation, within, asked.isolation == "read_committed")
        waiting = broker.read_until((namespace, name), attempt.read, _is_enough, wait_ms)
        kept = await authorization.check_again_after(request, waiting)
    metrics.polled.labels(f"{namespace}/{name}").inc(kept.count)
    metrics.poll_seconds.observe(time.perf_counter() - started)
    return await send(request, (kept.body,), content_type, {NEXT_POSITION: kept.next_position.hex()})


class _Poll:
    """A poll, which may read again each time the topic changes."""

    def __init__(
        self, broker: Broker, key: PageKey, isolation: str, within: TransactionSnapshot | None, read_committed: bool
    ) -> None:
        self._broker = broker
        self._key = key
        self._isolation = isolation
        self._within = within
        self._read_committed = read_committed
        self._after = key.after

    def read(self, snapshot: Snapshot) -> CachedPage:
        self._broker.pages.check()
        topic = topics.lookup(snapshot, self._key.namespace, self._key.name)
        now_ms = self._broker.now_ms()
        read_from = self._after
        page = reader.read(
            snapshot,
            topic,
            after=read_from,
            limit=self._key.limit,
            bytes_max=self._broker.settings.poll_bytes_max,
            now_ms=now_ms,
            states=visibility.row_states_of(snapshot, self._within, read_committed=self._read_committed),
        )
        self._after = page.next_position
        is_avro = self._key.content_type == AVRO
        kept = CachedPage(
            body=avro.encode_page(page) if is_avro else json_bodies.encode_page(page),
            next_position=page.next_position,
            count=len(page.ids),
            first=page.ids[0] if page.ids else b"",
            oldest_live=reader.oldest_live(topic, now_ms),
            end=snapshot.get(keys.log_end(topic)) if page.complete else None,
            complete=page.complete,
            lasts_until_ms=page.lasts_until_ms,
        )
        if page.ids and topic.generation == self._key.generation:
            key = replace(self._key, after=read_from)
            if page.plain:
                self._broker.keep(key, page_cache.ANY, kept)
            elif page.decided and self._within is None:
                self._broker.keep(key, self._isolation, kept)
        return kept


def _is_enough(page: CachedPage) -> bool:
    """Whether the page has messages, or ended early after skipping many; the reader then continues after it."""
    return page.count > 0 or not page.complete


async def inspect_topic(request: web.Request) -> web.Response:
    """Answer rows with their state; the query has ``after`` (hex) and ``limit``."""
    broker = request.app[BROKER]
    namespace, name = request.match_info["namespace"], request.match_info["topic"]
    after = validation.bound(request.query.get("after"), FIRST)
    asked = request.query.get("limit", str(INSPECT_LIMIT_DEFAULT))
    limit = validation.limit(validation.whole(asked, "limit"), INSPECT_LIMIT_MAX)

    def query(snapshot: Snapshot) -> list[responses.Inspected]:
        topic = topics.lookup(snapshot, namespace, name)
        bytes_max = broker.settings.poll_bytes_max
        return inspection.inspect(
            snapshot, topic, after=after, limit=limit, bytes_max=bytes_max, now_ms=broker.now_ms()
        )

    return json_response(await broker.read(query))
